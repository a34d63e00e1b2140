// Progress lines in any width, and text that is made to fit a terminal.
#include "tools/terminal/terminal.h"

#include <gtest/gtest.h>

#include "tools/terminal/wrap.h"

namespace cria::tools {
namespace {

const ProgressState kState = {.what = "perplexity",
                              .unit = "tokens",
                              .note = "34.2311 ± 0.9912",
                              .share = 0.42,
                              .per_second = 1234,
                              .seconds_left = 75};

TEST(ProgressLine, FitsEveryWidth) {
  for (std::size_t columns = 0; columns < 140; ++columns)
    EXPECT_LE(display_width(progress_line(kState, columns)), columns);
}

TEST(ProgressLine, ShowsEverythingIfItFits) {
  EXPECT_EQ(
      progress_line(kState, 132),
      "perplexity [##########              ] 42 %  1.23 k tokens/s  1:15 left  34.2311 ± 0.9912");
  EXPECT_EQ(progress_line(kState, 60),
            "perplexity [#####        ] 42 %  1:15 left  34.2311 ± 0.9912");
  EXPECT_EQ(progress_line(kState, 40), "perplexity [####       ] 42 %  1:15 left");
  EXPECT_EQ(progress_line(kState, 20), "perplexity 42 %");
}

TEST(ProgressLine, ShowsBytesInOneUnit) {
  ProgressState state = kState;
  state.unit = "bytes";
  state.per_second = 72.0 * (1 << 20);
  EXPECT_NE(progress_line(state, 132).find("  72.0 MiB/s"), std::string::npos);
}

TEST(Width, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("± é"), 3U);
  EXPECT_EQ(display_width("日本"), 4U);
  EXPECT_EQ(display_width("e\u0301"), 1U);
  EXPECT_EQ(display_width("\033[1;32mx\033[0m"), 1U);
  EXPECT_EQ(display_width("\U0001F469\u200D\U0001F4BB"), 2U);
}

TEST(Width, ShortensAtCharacters) {
  EXPECT_EQ(shortened("tokens", 6), "tokens");
  EXPECT_EQ(shortened("tokens", 5), "toke…");
  EXPECT_EQ(shortened("日本語", 4), "日…");
  EXPECT_EQ(shortened("tokens", 0), "");
}

TEST(Width, PiecesAreWholeCharacters) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces("tokens", 6), Pieces{"tokens"});
  EXPECT_EQ(pieces("tokens", 4), (Pieces{"toke", "ns"}));
  EXPECT_EQ(pieces("日本語", 5), (Pieces{"日本", "語"}));
  EXPECT_EQ(pieces("e\u0301e\u0301", 1), (Pieces{"e\u0301", "e\u0301"}))
      << "marks stay with their letter";
  EXPECT_EQ(pieces("a日b", 1), (Pieces{"a", "…", "b"})) << "no place for it";
  EXPECT_EQ(pieces("", 4), Pieces{""});
}

TEST(Width, WrapsAtWordsWithAnIndent) {
  EXPECT_EQ(wrapped("one two three four", 9), "one two\nthree\nfour");
  EXPECT_EQ(wrapped("one two three four", 9, 2), "one two\n  three\n  four");
  EXPECT_EQ(wrapped("  one two three\nfour", 9), "  one two\nthree\nfour");
  EXPECT_EQ(wrapped("unbreakable x", 4), "unbreakable\nx");
}

}  // namespace
}  // namespace cria::tools
