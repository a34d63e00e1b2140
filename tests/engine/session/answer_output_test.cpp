#include "engine/session/answer_output.h"

#include <gtest/gtest.h>

namespace cria {
namespace {

// Feeds text in pieces of n bytes; returns what is shown.
std::string shown(StopScanner& scanner, const std::string& text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += n) out += scanner.push(text.substr(i, n));
  return out + scanner.finish();
}

TEST(StopScanner, FindsTextsHoweverTheyArrive) {
  for (std::size_t n = 1; n < 20; ++n) {
    StopScanner scanner({"</end>", "STOP"});
    EXPECT_EQ(shown(scanner, "one </en two STO three STOP four", n), "one </en two STO three ")
        << n;
    EXPECT_EQ(scanner.found(), "STOP");
    StopScanner other({"</end>", "STOP"});
    EXPECT_EQ(shown(other, "one <</end> STOP", n), "one <") << n;
    EXPECT_EQ(other.found(), "</end>");
  }
}

TEST(StopScanner, ShowsEverythingWithoutAStop) {
  for (std::size_t n = 1; n < 9; ++n) {
    StopScanner scanner({"aab", ""});
    EXPECT_EQ(shown(scanner, "aaaaa", n), "aaaaa");
    EXPECT_EQ(scanner.found(), "");
    StopScanner none({});
    EXPECT_EQ(shown(none, "text", n), "text");
  }
}

TEST(StopScanner, HoldsBackOnlyWhatMayBeginAStop) {
  StopScanner scanner({"abc"});
  EXPECT_EQ(scanner.push("xab"), "x");
  EXPECT_EQ(scanner.push("ab"), "ab");
  EXPECT_EQ(scanner.push("d"), "abd");
  EXPECT_EQ(scanner.push("abc"), "");
  EXPECT_EQ(scanner.push("more"), "");
  EXPECT_EQ(scanner.finish(), "");
}

TEST(StopScanner, OverlappingStops) {
  StopScanner first(
      {"b", "abX"});  // "ab" might still become abX when the b arrives, but b is a stop already
  EXPECT_EQ(first.push("a"), "");
  EXPECT_EQ(first.push("b"), "a");
  EXPECT_EQ(first.found(), "b");
  StopScanner longest({"ab", "abc"});
  EXPECT_EQ(longest.push("xabc"), "x");
  EXPECT_EQ(longest.found(), "abc");
}

}  // namespace
}  // namespace cria
