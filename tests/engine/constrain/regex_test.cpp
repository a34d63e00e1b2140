#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "engine/constrain/constraint.h"

namespace cria {
namespace {

// Against another implementation of ECMAScript's expressions, on texts of a few letters.
TEST(Regex, TakesWhatTheStandardLibraryTakes) {
  const char* const expressions[] = {
      "a*b+c?",          "(a|b)*abb",
      "[ab]{2,3}c*",     "(?:ab|a)(?:c|bcd)",
      "a{0,2}?b",        "^a(b|c)$",
      "(a*)*b",          "((a|ab)(c|bcd))*",
      "[^a]b|c[^bc]",    "\\w\\W?\\d*",
      "(|a)+b",          "a\\.b|\\x61c",
      "\\bab\\b( c)?",   "(a\\b|ab\\B)[ b]*",
      "[a-c]+?[\\-1 ]?", ".a.",
      "a{3}|b{2,}",      "()",
  };
  constexpr std::string_view kLetters = "abcd1 -.";
  std::mt19937 random(1);
  for (const char* const expression : expressions) {
    const auto mine = Constraint::regex(expression);
    const std::regex other(expression);
    std::size_t matches = 0;
    for (int i = 0; i < 3000; ++i) {
      std::string text;
      for (std::size_t n = random() % 7; n > 0; --n)
        text += kLetters[random() % (i % 2 == 0 ? 4 : kLetters.size())];
      const bool expected = std::regex_match(text, other);
      EXPECT_EQ(mine->accepts(text), expected) << expression << " and " << text;
      matches += expected ? 1 : 0;
    }
    EXPECT_GT(matches, 0U) << expression;
  }
}

TEST(Regex, ReadsCodePoints) {
  const auto one = Constraint::regex("[ä-ü][^a]\\u{1F999}\\ud83d\\ude00.");
  EXPECT_TRUE(one->accepts("öb🦙😀水"));
  EXPECT_FALSE(one->accepts("zb🦙😀水"));
  EXPECT_FALSE(one->accepts("öb🦙😀\n"));
}

TEST(Regex, ThatIsNoneOrNotSupportedIsRefused) {
  for (const char* const expression : {"(",       ")",
                                       "[a",      "a**",
                                       "*",       "a{2,1}",
                                       "(?=a)",   "(?!a)",
                                       "(?<=a)b", "(?<!a)b",
                                       "(a)\\1",  "\\k<n>",
                                       "\\p{L}",  "\\q",
                                       "\\u12",   "[b-a]",
                                       "[\\d-z]", "(?<n",
                                       "[]",      "a\\",
                                       "\xFF",    "(a|b)*a(a|b){40}"})
    EXPECT_THROW(Constraint::regex(expression), ConstraintError) << expression;
}

}  // namespace
}  // namespace cria
