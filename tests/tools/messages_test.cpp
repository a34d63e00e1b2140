// Every message of the program, read out of its sources: `CRIA_MESSAGES=1 tools_test
// --gtest_filter=Messages.*` lists them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>

#include "tests/tools/paths.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

struct Source {
  std::string path, text;
};

std::vector<Source> sources() {
  std::vector<Source> all;
  for (const char* room : {"tools", "engine", "model", "tokenizer", "kernels"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(project_root()) / room)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cpp" && extension != ".h") continue;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      all.push_back({fs::relative(entry.path(), project_root()).string(), text.str()});
    }
  return all;
}

/// String literals; those that stand side by side are one.
std::vector<std::string> literals(const std::string& text) {
  std::vector<std::string> all;
  bool adjacent = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '/' && text.compare(at, 2, "//") == 0) {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '\'' && at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0) {
      at += text[at + 1] == '\\' ? 3 : 2;  // a character
      adjacent = false;
    } else if (c == 'R' && text.compare(at, 3, "R\"(") == 0) {
      at = std::min(text.find(")\"", at) + 1, text.size());
    } else if (c == '"') {
      std::string literal;
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        literal += text[at];
        if (text[at] == '\\') literal += text[++at];
      }
      if (adjacent)
        all.back() += literal;
      else
        all.push_back(literal);
      adjacent = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      adjacent = false;
    }
  }
  return all;
}

/// What a person is to read: words with blanks between them.
bool is_message(const std::string& literal) {
  static const std::regex words("[A-Za-z]{2,}[,:;]? [A-Za-z]{2,}");
  return std::regex_search(literal, words) && literal.find("#include") == std::string::npos;
}

TEST(Messages, AreFound) {
  std::size_t count = 0;
  for (const Source& source : sources())
    for (const std::string& literal : literals(source.text))
      if (is_message(literal)) {
        ++count;
        if (std::getenv("CRIA_MESSAGES") != nullptr)
          std::cout << source.path << ": " << literal << '\n';
      }
  EXPECT_GT(count, 500U);
}

TEST(Messages, NoWordIsSaidTwice) {
  static const std::regex twice(R"(\b([A-Za-z]{2,}) \1\b(?![.-]))");
  for (const Source& source : sources())
    for (const std::string& literal : literals(source.text)) {
      EXPECT_FALSE(is_message(literal) && std::regex_search(literal, twice))
          << source.path << ": " << literal;
    }
}

TEST(Messages, NoHintStandsBehindAnother) {
  for (const Source& source : sources())
    for (const std::string& literal : literals(source.text))
      EXPECT_EQ(literal.find(") ("), std::string::npos) << source.path << ": " << literal;
}

// "1 windows": a number that is computed is followed by its noun through counted() alone. Limits
// are constants.
TEST(Messages, PluralsAreMadeInOnePlace) {
  static const std::regex number(
      "to_string\\(([^;\"]*?)\\)\\s*\\+\\s*\" "
      "(tokens|windows|messages|files|tensors|keys|bytes|threads|entries|"
      "values|questions|merges|positions|columns|rows|elements|arguments|models|cores|seconds|runs)"
      "\\b");
  for (const Source& source : sources())
    for (std::sregex_iterator at(source.text.begin(), source.text.end(), number), end; at != end;
         ++at) {
      const std::string what = (*at)[1];
      const bool is_limit =
          what.starts_with("limits::") ||
          (what.size() > 1 && what[0] == 'k' && std::isupper(static_cast<unsigned char>(what[1])));
      EXPECT_TRUE(is_limit) << source.path << ": " << at->str();
    }
}

// Everything said on stderr goes through terminal/messages.h, which keeps within the terminal's
// columns.
TEST(Messages, AreSaidInOnePlace) {
  for (const Source& source : sources()) {
    const bool says = source.text.find("std::cerr << \"cria: ") != std::string::npos;
    EXPECT_FALSE(says) << source.path;
  }
}

}  // namespace
}  // namespace cria::test
