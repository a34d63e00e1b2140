// Text as it arrives, token by token.
#include <gtest/gtest.h>

#include "model/file/utf8.h"
#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

TEST(StreamDecoder, PiecesAreWholeCharacters) {
  const std::string text = "naïve \xF0\x9F\xA6\x99\xF0\x9F\xA6\x99 我想 ½";
  StreamDecoder stream(*demo().tokenizer, false);
  std::string all;
  for (const TokenId id : demo().tokenizer->encode(text, true, false)) {
    const std::string piece = stream.push(id);
    EXPECT_TRUE(is_utf8(piece)) << piece;
    all += piece;
  }
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(all, text);
}

TEST(StreamDecoder, HoldsBackUpToOneCharacter) {
  const auto byte = [](int value) { return static_cast<TokenId>(5 + value); };
  StreamDecoder stream(*demo().tokenizer, true);
  EXPECT_EQ(stream.push(byte(0xF0)), "");
  EXPECT_EQ(stream.push(byte(0x9F)), "");
  EXPECT_EQ(stream.push(byte(0xA6)), "");
  EXPECT_EQ(stream.push(byte(0x99)), "\xF0\x9F\xA6\x99");
  EXPECT_EQ(stream.push(byte(0x99)), "\x99") << "can begin no character";
  EXPECT_EQ(stream.push(byte(0xC3)), "");
  EXPECT_EQ(stream.push(byte('A')),
            "\xC3"
            "A")
      << "incomplete bytes are emitted";
  EXPECT_EQ(stream.push(byte(0xE2)), "");
  EXPECT_EQ(stream.push(byte(0x96)), "");
  EXPECT_EQ(stream.finish(), "\xE2\x96");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, DummySpaceOnlyAtTheStartOfAText) {
  const Ids ids = demo().tokenizer->encode("Hello world", true, false);
  std::string start, continued;
  StreamDecoder at_start(*demo().tokenizer, false), after_text(*demo().tokenizer, true);
  for (const TokenId id : ids) start += at_start.push(id);
  for (std::size_t i = 1; i < ids.size(); ++i) continued += after_text.push(ids[i]);
  EXPECT_EQ(start, "Hello world");
  EXPECT_EQ(continued, " Hello world");
}

TEST(StreamDecoder, ShowsControlTokensOnRequest) {
  StreamDecoder hidden(*demo().tokenizer, true), shown(*demo().tokenizer, true, true);
  EXPECT_EQ(hidden.push(4), "");
  EXPECT_EQ(shown.push(4), "<|im_end|>");
}

}  // namespace
}  // namespace cria::testing
