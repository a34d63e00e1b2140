// The table of Unicode properties.
#include "tokenizer/unicode/unicode.h"

#include <gtest/gtest.h>

namespace cria {
namespace {

bool has(UnicodeProperty kind, std::string_view name, char32_t code) {
  const auto set = unicode_set(kind, name);
  return set && contains(*set, code);
}

TEST(Unicode, HasCategoriesUnderAllTheirNames) {
  using enum UnicodeProperty;
  for (const char* name : {"Lu", "Uppercase_Letter", "L", "Letter", "LC", "Cased_Letter"})
    EXPECT_TRUE(has(Category, name, U'A')) << name;
  EXPECT_FALSE(has(Category, "Lu", U'a'));
  EXPECT_TRUE(has(Category, "Cn", 0x10FFFF));
  EXPECT_TRUE(has(Category, "Co", 0xE000));
  EXPECT_TRUE(has(Category, "Lo", 0x4E01)) << "inside a range of ideographs";
  EXPECT_TRUE(has(Category, "Lo", 0x31350)) << "Unicode 15";
  EXPECT_FALSE(unicode_set(Category, "Han"));
  EXPECT_FALSE(unicode_set(Category, ""));
}

TEST(Unicode, EachCodePointHasOneCategory) {
  std::vector<int> count(0x110000);
  for (const char* name : {"L", "M", "N", "P", "S", "Z", "C"}) {
    const CodeSet set = *unicode_set(UnicodeProperty::Category, name);
    for (const CodeRange& range : set)
      for (char32_t c = range.low; c <= range.high; ++c) ++count[c];
  }
  for (const int n : count) ASSERT_EQ(n, 1);
}

TEST(Unicode, HasScriptsAndBinaryProperties) {
  using enum UnicodeProperty;
  EXPECT_TRUE(has(Script, "Han", U'水'));
  EXPECT_TRUE(has(Script, "Hani", U'水'));
  EXPECT_FALSE(has(Script, "Katakana", U'ー'));
  EXPECT_TRUE(has(ScriptExtensions, "Katakana", U'ー'));
  EXPECT_TRUE(has(ScriptExtensions, "Cyrl", U'ж'));
  EXPECT_TRUE(has(Binary, "White_Space", 0x3000));
  EXPECT_FALSE(has(Binary, "White_Space", 0x180E));
  EXPECT_TRUE(has(Binary, "Alpha", U'ß'));
  EXPECT_FALSE(unicode_set(Binary, "X"));
}

}  // namespace
}  // namespace cria
