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

// Names of each kind.
TEST(Regex, ReadsUnicodeProperties) {
  const auto takes = [](const char* expression, std::initializer_list<const char*> yes,
                        std::initializer_list<const char*> no) {
    const auto one = Constraint::regex(expression);
    for (const char* const text : yes)
      EXPECT_TRUE(one->accepts(text)) << expression << " and " << text;
    for (const char* const text : no)
      EXPECT_FALSE(one->accepts(text)) << expression << " and " << text;
  };
  takes("\\p{L}+", {"Straße", "Ωmega", "水", "𝔘nicode", "اسم"}, {"a1", "", "a-b", "😀", "e\u0301"});
  takes("\\P{L}", {"1", "😀", "-"}, {"ß", "水"});
  takes("\\p{Lu}\\p{Lowercase_Letter}", {"Äé", "Жя"}, {"äé", "ÄÉ"});
  takes("[\\p{Nd}_]+", {"٣4_", "1"}, {"½", "a"});
  takes("[^\\p{P}\\p{S}\\p{Z}]+", {"a1水"}, {"a,", "€", "a b", "a\u00A0b", "„"});
  takes("\\p{gc=Sc}\\p{General_Category=Decimal_Number}", {"€5"}, {"5€", "$a"});
  takes("\\p{Script=Greek}\\p{sc=Grek}\\p{scx=Cyrl}", {"αβж"}, {"aβж"});
  takes("\\p{Emoji_Presentation}\\p{Alphabetic}\\p{space}", {"😀a "}, {"1a "});
  takes("\\p{ASCII}\\p{Any}\\p{Assigned}", {"a水b"}, {"水ab", "ab\u0378"});
  takes("\\p{Cs}|a", {"a"}, {"b"});
  for (const char* const unknown :
       {"\\p", "\\pL", "\\p{}", "\\p{L", "\\p{Greek}", "\\p{Xan}", "\\p{L&}", "\\p{^L}",
        "\\p{sc=Lu}", "\\p{Script=}", "\\p{gc=Greek}", "\\p{foo=L}", "\\p{ L}"})
    EXPECT_THROW(Constraint::regex(unknown), ConstraintError) << unknown;
}

TEST(Regex, RejectsInvalidOrUnsupportedPatterns) {
  for (const char* const expression :
       {"(",      ")",        "[a",      "a**",    "a{1}{2}",
        "a+{2,}", "a*?{1,2}", "*",       "a{2,1}", "(?=a)",
        "(?!a)",  "(?<=a)b",  "(?<!a)b", "(a)\\1", "\\k<n>",
        "\\p{X}", "\\q",      "\\u12",   "[b-a]",  "[\\d-z]",
        "(?<n",   "[]",       "a\\",     "\xFF",   "(a|b)*a(a|b){40}"})
    EXPECT_THROW(Constraint::regex(expression), ConstraintError) << expression;
}

}  // namespace
}  // namespace cria
