// Tables of any width: long cells wrap to the next line.
#include "tools/report/table.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tools/terminal/wrap.h"

namespace cria::test {
namespace {

using tools::Table;

const std::string kName =
    "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF-Meta-Llama-3.1-8B-Instruct-Q4_K_M";
const std::string kPath = "/home/somebody/.cache/models/" + kName + ".gguf";

/// Joins the lines of a column's cells: `begin` is its offset, `width` its width.
std::string column(const std::string& text, std::size_t begin, std::size_t width) {
  std::istringstream lines(text);
  std::string whole;
  for (std::string line; std::getline(lines, line);) {
    if (line.size() <= begin) continue;
    std::string cell = line.substr(begin, width);
    whole += cell.substr(0, cell.find_last_not_of(' ') + 1);
  }
  return whole;
}

TEST(Table, BreaksWordsLongerThanTheColumn) {
  Table table({"name", ">size", "place"});
  table.add({"abcdefghijklmnopqrstuvwxyz", "4.58 GiB", "here"});
  EXPECT_EQ(table.text(30),
            "name               size  place\n"
            "abcdefghijklm  4.58 GiB  here\n"
            "nopqrstuvwxyz\n");
}

TEST(Table, NamesAndPathsAreWholeInEveryWidth) {
  Table table({"name", ">size", "place", "file"});
  table.add({kName, "4.58 GiB", "$CRIA_MODELS", kPath});
  for (const std::size_t columns : {60U, 80U, 132U}) {
    const std::string text = table.text(columns);
    EXPECT_EQ(text.find("…"), std::string::npos) << text;
    const std::string heading = text.substr(0, text.find('\n'));
    const std::size_t size = heading.find("size"), place = heading.find("place"),
                      file = heading.find("file");
    EXPECT_EQ(column(text, file, columns), "file" + kPath) << text;
    const std::size_t name_end = size + 4 - std::string("4.58 GiB").size() - 2;
    EXPECT_EQ(column(text, 0, name_end), "name" + kName) << text;
    EXPECT_EQ(column(text, place, file - place), "place$CRIA_MODELS") << text;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(tools::display_width(line), columns);
  }
}

TEST(Table, WordsAreBrokenAtBlanksFirst) {
  Table table({"what", "why"});
  table.add({"x", "rows of 100 values do not divide into blocks of 256"});
  EXPECT_EQ(table.text(26),
            "what  why\n"
            "x     rows of 100 values\n"
            "      do not divide into\n"
            "      blocks of 256\n");
}

}  // namespace
}  // namespace cria::test
