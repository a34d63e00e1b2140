// Lines that end between words, whatever the pieces in which a text comes.
#include "tools/terminal/wrap.h"

#include <gtest/gtest.h>

namespace cria::tools {
namespace {

std::string wrap(std::string_view text, std::size_t columns, std::size_t piece) {
  WordWrap wrap([columns] { return columns; });
  std::string out;
  while (!text.empty()) {
    std::size_t n = std::min(piece, text.size());
    while (n < text.size() && (text[n] & 0xC0) == 0x80) ++n;  // no character in two pieces
    out += wrap.push(text.substr(0, n));
    text.remove_prefix(n);
  }
  return out + wrap.finish();
}

void expect_wrapped(std::string_view text, std::size_t columns, std::string_view want) {
  for (const std::size_t piece : {1U, 3U, 1000U})
    EXPECT_EQ(wrap(text, columns, piece), want) << "pieces of " << piece;
}

TEST(WordWrap, BreaksAtBlanks) {
  expect_wrapped("one two three", 7, "one two\nthree");
  expect_wrapped("one two three", 8, "one two\nthree");
  expect_wrapped("one two three", 100, "one two three");
  expect_wrapped("one  two\n\n three", 100, "one  two\n\n three");
  expect_wrapped("one two", 0, "one two");
  expect_wrapped("a\nbb cc\nd", 3, "a\nbb\ncc\nd");
}

TEST(WordWrap, CountsColumnsNotBytes) {
  expect_wrapped("\u00e4\u00f6\u00fc \u00e4\u00f6\u00fc", 7,
                 "\u00e4\u00f6\u00fc \u00e4\u00f6\u00fc");
  expect_wrapped("\u6c34\u306f\u6d41", 4, "\u6c34\u306f\n\u6d41");
}

TEST(WordWrap, LongWordsStayWhole) {
  expect_wrapped("see https://example.org/a/long/path now", 10,
                 "see\nhttps://example.org/a/long/path now");
}

TEST(WordWrap, CodeIsLeftAsItIs) {
  const std::string_view code = "```c\nint main(void) { return 0; }\n\n  x  y\n```\n";
  expect_wrapped(code, 10, code);
  expect_wrapped("~~~\na b c d e f\n~~~\na b c", 3, "~~~\na b c d e f\n~~~\na b\nc");
  expect_wrapped("    indented by four blanks\n\tby a tab\n| a | table |\n", 8,
                 "    indented by four blanks\n\tby a tab\n| a | table |\n");
  expect_wrapped("call `f(a, b)` now", 12, "call\n`f(a, b)`\nnow");
}

}  // namespace
}  // namespace cria::tools
