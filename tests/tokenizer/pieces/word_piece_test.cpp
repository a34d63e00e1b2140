// WordPiece: how BERT's tokenizer cleans, splits and looks up texts. Expected tokens follow from
// its published rules.
#include <gtest/gtest.h>

#include "model/error.h"
#include "tests/tokenizer/vocabularies.h"
#include "tokenizer/unicode/unicode.h"

namespace cria::testing {
namespace {

/// A vocabulary as converters write it: U+2581 before tokens that begin words.
struct Bert {
  SmallVocabulary v{false};
  std::unique_ptr<Tokenizer> tokenizer;

  explicit Bert(bool lower_case = true, bool strip_accents = true) {
    v->model = "bert";
    v->lower_case = lower_case;
    v->strip_accents = strip_accents;
    for (const char* word :
         {"un", "want", "runn", "hello", "world", "cafe", "ca", "Hello", "水",  "火",  "ᄒ",
          "i",  ",",    "!",    "$",     "'",     "-",    "«",  "a",     "don", "café"})
      v.add("\u2581" + std::string(word));
    for (const char* part : {"want", "ed", "ing", "f", "e", "ᅡ", "ᆫ", "a", "t"}) v.add(part);
    tokenizer = v.tokenizer();
  }
  /// The tokens' texts; a part that continues a word begins with "##".
  [[nodiscard]] std::string tokens(std::string_view text) const {
    std::string out;
    const Vocabulary& vocabulary = tokenizer->vocabulary();
    for (const TokenId id : tokenizer->encode(text, false, false)) {
      std::string token(vocabulary.tokens[static_cast<std::size_t>(id)]);
      const bool special = vocabulary.types[static_cast<std::size_t>(id)] != TokenType::Normal;
      if (token.starts_with("\u2581"))
        token.erase(0, 3);
      else if (!special)
        token = "##" + token;
      out += (out.empty() ? "" : " ") + token;
    }
    return out;
  }
};

TEST(WordPiece, TakesTheLongestTokensFromTheLeft) {
  const Bert bert;
  EXPECT_EQ(bert.tokens("unwanted running"), "un ##want ##ed runn ##ing");
  EXPECT_EQ(bert.tokens("wanted"), "want ##ed");
  EXPECT_EQ(bert.tokens("unknown"), "<unk>") << "a word without tokens for all of it";
  EXPECT_EQ(bert.tokens("hello unknown world"), "hello <unk> world");
  EXPECT_EQ(bert.tokens(""), "");
  EXPECT_EQ(bert.tokens(" \t\n\u2003 "), "");
}

TEST(WordPiece, CleansTexts) {
  const Bert bert;
  EXPECT_EQ(bert.tokens(std::string("he\0llo\u200B\uFFFD\xFF wor\u00ADld", 21)), "hello world");
  EXPECT_EQ(bert.tokens("hello\r\n\u00A0world\u3000!"), "hello world !");
}

TEST(WordPiece, LowersAndStripsAccents) {
  EXPECT_EQ(Bert().tokens("HELLO CAFÉ Cafe\u0301 İ"), "hello cafe cafe i");
  EXPECT_EQ(Bert(false, false).tokens("Hello hello café"), "Hello hello café");
  EXPECT_EQ(Bert(true, false).tokens("CAFÉ"), "café");
  EXPECT_EQ(Bert(false, true).tokens("Hello Café"), "Hello <unk>");
  EXPECT_EQ(Bert().tokens("한"), "ᄒ ##ᅡ ##ᆫ") << "a syllable is decomposed";
}

TEST(WordPiece, SplitsAtPunctuationAndIdeographs) {
  const Bert bert;
  EXPECT_EQ(bert.tokens("hello,world!!"), "hello , world ! !");
  EXPECT_EQ(bert.tokens("$don't-a«a"), "$ don ' <unk> - a « a");
  EXPECT_EQ(bert.tokens("a水火a"), "a 水 火 a");
}

TEST(WordPiece, LongWordsAreUnknown) {
  const Bert bert;
  const std::string longest = "a" + std::string(99, 'a');
  EXPECT_EQ(bert.tokenizer->encode(longest, false, false).size(), 100U);
  EXPECT_EQ(bert.tokens(longest + "a"), "<unk>");
}

TEST(WordPiece, EndsAreThoseOfTheText) {
  const Bert bert;
  std::vector<std::size_t> ends;
  (void)bert.tokenizer->encode(" Café, unwanted", false, false, &ends);
  EXPECT_EQ(ends, (std::vector<std::size_t>{6, 7, 10, 14, 16}));
}

TEST(WordPiece, AddsItsTokensAndPiecesComeBack) {
  Bert bert;
  bert.v->add_bos = bert.v->add_eos = true;
  const std::vector<TokenId> ids = bert.tokenizer->encode("</s>hello unwanted", true, true);
  EXPECT_EQ(ids.front(), bert.v->bos);
  EXPECT_EQ(ids[1], bert.v->eos) << "a control token of trusted text";
  EXPECT_EQ(ids.back(), bert.v->eos);
  EXPECT_EQ(bert.tokenizer->decode(ids), "hello unwanted");
}

TEST(WordPiece, NeedsAnUnknownToken) {
  SmallVocabulary v(false);
  v->model = "bert";
  v->unk.reset();
  v->types[0] = TokenType::Normal;
  EXPECT_THROW((void)v.tokenizer(), Error);
}

TEST(UnicodeMappings, LowerCaseAndMarks) {
  const auto lower = [](char32_t c) {
    std::u32string out;
    append_lower_case(c, out);
    return out;
  };
  const auto bare = [](char32_t c) {
    std::u32string out;
    append_without_marks(c, out);
    return out;
  };
  EXPECT_EQ(lower(U'A'), U"a");
  EXPECT_EQ(lower(U'Ž'), U"ž");
  EXPECT_EQ(lower(U'Σ'), U"σ");
  EXPECT_EQ(lower(U'İ'), U"i\u0307");
  EXPECT_EQ(lower(0x1E900), U"\U0001E922");
  EXPECT_EQ(lower(U'ß'), U"ß");
  EXPECT_EQ(bare(U'é'), U"e");
  EXPECT_EQ(bare(U'ǘ'), U"u") << "decomposed twice";
  EXPECT_EQ(bare(0x0301), U"");
  EXPECT_EQ(bare(0x09CB), U"\u09C7\u09BE") << "spacing marks stay";
  EXPECT_EQ(bare(0xF900), U"\u8C48");
  EXPECT_EQ(bare(0x2F800), U"\u4E3D");
  EXPECT_EQ(bare(0xD55C), U"\u1112\u1161\u11AB");
  EXPECT_EQ(bare(0xAC00), U"\u1100\u1161");
  EXPECT_EQ(bare(U'ﬁ'), U"ﬁ") << "a compatibility decomposition";
}

}  // namespace
}  // namespace cria::testing
