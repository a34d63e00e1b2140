// Ids of texts, and texts back from ids.
#include <gtest/gtest.h>

#include <random>

#include "tests/tokenizer/demo_goldens.h"
#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

constexpr const char* kSpace = "\xE2\x96\x81";

TEST(Encode, DemoGoldens) {
  for (const Golden& golden : demo_goldens()) {
    EXPECT_EQ(demo().tokenizer->encode(golden.text, false, false), golden.ids) << golden.text;
  }
}

void expect_round_trip(const Tokenizer& tokenizer, const std::string& text) {
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, true, false)), text);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false, true), true), text);
}

TEST(Encode, RoundTripOfChosenTexts) {
  const std::string space_symbol = kSpace;
  for (const std::string& text :
       {std::string("\0", 1), std::string("a\0b\0\0", 5), std::string("\r\n\r"),
        std::string("   a   b   "), space_symbol, " " + space_symbol + "a " + space_symbol,
        std::string("\xE2\x96"), std::string("\xC3(\xFF\xC0\x80"),
        std::string("\xED\xA0\x80 \xF4\x90\x80\x80"), std::string("<s> <s>a<unk> b</s>"),
        std::string(" <|im_start|>  user"), std::string("<0x0A>"), std::string("\xEF\xBF\xBD")}) {
    expect_round_trip(*demo().tokenizer, text);
  }
}

TEST(Encode, RoundTripOfRandomBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 50, '\0');
    for (char& c : text) c = static_cast<char>(random());
    expect_round_trip(*demo().tokenizer, text);
  }
}

TEST(Encode, RoundTripOfRandomPieces) {
  std::mt19937 random(8);
  const Vocabulary& v = demo().vocabulary;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (auto n = random() % 20; n > 0; --n)
      text += random() % 4 == 0 ? " " : v.tokens[random() % v.tokens.size()];
    expect_round_trip(*demo().tokenizer, text);
  }
}

// The library would need 60 times this in memory; words are encoded apart, and the seams do not
// show.
TEST(Encode, LongTextIsItsParts) {
  const std::string sentence = " The capital of France is Paris.";
  const Ids once = demo().tokenizer->encode(sentence.substr(1), false, false);
  std::string text = sentence.substr(1);
  Ids expected = once;
  for (int i = 0; i < 20000; ++i) {
    text += sentence;
    expected.insert(expected.end(), once.begin(), once.end());
  }
  EXPECT_EQ(demo().tokenizer->encode(text, false, false), expected);
}

TEST(Encode, LongRunOfOneCharacter) {
  for (const char c : {' ', 'a', '='}) {
    expect_round_trip(*demo().tokenizer, std::string((std::size_t{1} << 20) + 3, c));
  }
}

TEST(Encode, AddsBosAndEosByTheVocabulary) {
  SmallVocabulary v;
  const TokenId a = v.add("a"), space_a = v.add(std::string(kSpace) + "a");
  v.add(kSpace);
  v->add_bos = v->add_eos = true;
  const auto tokenizer = v.tokenizer();
  EXPECT_EQ(tokenizer->encode("a", true, false), (Ids{1, space_a, 2}));
  EXPECT_EQ(tokenizer->encode("a", false, false), Ids{space_a});
  EXPECT_EQ(tokenizer->encode("", true, false), (Ids{1, 2}));
  EXPECT_EQ(tokenizer->encode("<s>a", true, true), (Ids{1, space_a, 2})) << "no second BOS";
  EXPECT_EQ(tokenizer->encode("a</s>", true, true), (Ids{1, space_a, 2})) << "no second EOS";
  v->add_bos = v->add_eos = v->add_space_prefix = false;
  const auto plain = v.tokenizer();
  EXPECT_EQ(plain->encode("a a", true, false), (Ids{a, space_a}));
  EXPECT_EQ(plain->encode("", true, false), Ids{});
}

TEST(Encode, ParsesControlTokensOnlyOnRequest) {
  const Tokenizer& tokenizer = *demo().tokenizer;
  const Ids parsed = tokenizer.encode("<|im_start|>user", false, true);
  EXPECT_EQ(parsed, (Ids{3, 321}));
  EXPECT_EQ(tokenizer.decode(parsed), "user");
  EXPECT_EQ(tokenizer.decode(parsed, true), "<|im_start|>user");
  for (const TokenId id : tokenizer.encode("<s></s><unk><|im_start|><|im_end|>", false, false))
    EXPECT_GT(id, 4);
}

TEST(Encode, NoMergeMakesAControlOrByteToken) {
  SmallVocabulary v;
  for (const char* text :
       {"<", "s", ">", "<s", "0", "x", "A", "0A", "<0", "<0x", "<0xA", "A>", "<0x0", "<0x0A"})
    v.add(text);
  v->add_space_prefix = false;
  for (const char* text : {"<s>", "<0x0A>"}) {
    const Ids ids = v.tokenizer()->encode(text, false, false);
    EXPECT_GE(*std::min_element(ids.begin(), ids.end()), 3 + 256) << text;
  }
}

TEST(Encode, DummySpaceAfterEverySpecialToken) {
  SmallVocabulary v;
  const TokenId space = v.add(kSpace), space_a = v.add(std::string(kSpace) + "a"),
                tool = v.add("<tool>", TokenType::UserDefined);
  const auto tokenizer = v.tokenizer();
  const Ids ids = tokenizer->encode("a<tool>a<tool><s> a", false, true);
  EXPECT_EQ(ids, (Ids{space_a, tool, space_a, tool, 1, space, space_a}));
  EXPECT_EQ(tokenizer->decode(ids, true), "a<tool>a<tool><s> a");
}

TEST(Encode, UserDefinedTokensBeforeAnyMerge) {
  SmallVocabulary v;
  for (const char* text : {"a", "b", "c"}) v.add(text);
  const TokenId ab = v.add("ab", TokenType::UserDefined),
                abc = v.add("abc", TokenType::UserDefined);
  const TokenId c = ab - 1, bc = v.add("bc", TokenType::Normal, 9);
  const TokenId two_spaces = v.add(std::string(kSpace) + kSpace, TokenType::UserDefined);
  v->add_space_prefix = false;
  const auto tokenizer = v.tokenizer();
  EXPECT_EQ(tokenizer->encode("abc", false, false), Ids{abc}) << "the longest one";
  EXPECT_EQ(tokenizer->encode("abbc", false, false), (Ids{ab, bc}));
  EXPECT_EQ(tokenizer->encode("  c", false, false), (Ids{two_spaces, c}))
      << "spaces as SentencePiece writes them";
  EXPECT_EQ(tokenizer->decode(Ids{two_spaces, c}), "  c");
}

TEST(Encode, ChatMarkersCalledUserDefinedAreControl) {
  SmallVocabulary v;
  const TokenId start = v.add("<|im_start|>", TokenType::UserDefined),
                end = v.add("[END]", TokenType::UserDefined);
  v->end_of_generation = {end};
  const auto tokenizer = v.tokenizer();
  EXPECT_EQ(tokenizer->encode("<|im_start|>[END]", false, true), (Ids{start, end}));
  for (const TokenId id : tokenizer->encode("<|im_start|>[END]", false, false))
    EXPECT_LT(id, start);
}

// Gemma's original tokenizer takes tags as tokens in any text.
TEST(Encode, TagsOfHtmlAreTextUnlessAChatIsMarkedWithThem) {
  for (const std::string_view chat_template : {"", "{{ '<turn>' + role + '<b>' }}"}) {
    SmallVocabulary v;
    v->add_space_prefix = false;
    v->chat_template = chat_template;
    const TokenId tag = v.add("<h1>", TokenType::UserDefined),
                  end = v.add("</h1>", TokenType::UserDefined), a = v.add("a");
    for (const char* text : {"/", "<", "=", ">", "[", "]"}) v.add(text);
    std::vector<std::string> markers = {"<turn>",          "[/turn]",  "[|user|]", "<|tool>",
                                        "<think>",         "</think>", "[INST]",   "<tool_call>",
                                        "<start_of_turn>", "<AI>",     "<用户>",   "<a>b>"};
    for (const std::string& marker : markers) v.add(marker, TokenType::UserDefined);
    const TokenId bold = v.add("<b>", TokenType::UserDefined);
    const auto tokenizer = v.tokenizer();
    for (const bool trusted : {false, true})
      EXPECT_EQ(tokenizer->encode("a<h1>a</h1>", false, trusted), (Ids{a, tag, a, end}));
    EXPECT_EQ(tokenizer->encode("<b>", false, false) == Ids{bold}, chat_template.empty());
    for (const std::string& marker : markers) {
      EXPECT_EQ(tokenizer->encode(marker, false, true).size(), 1) << marker;
      EXPECT_GT(tokenizer->encode(marker, false, false).size(), 1) << marker;
    }
  }
}

TEST(Encode, EqualScoresMergeFromTheLeft) {
  SmallVocabulary v;
  const TokenId a = v.add("a"), aa = v.add("aa");
  v->add_space_prefix = false;
  EXPECT_EQ(v.tokenizer()->encode("aaaaa", false, false), (Ids{aa, aa, a}));
  v->scores.clear();
  EXPECT_EQ(v.tokenizer()->encode("aaaaa", false, false), (Ids{aa, aa, a}))
      << "no scores: all equal";
}

TEST(Encode, UnusedTokensAreTakenApart) {
  SmallVocabulary v;
  const TokenId a = v.add("a"), b = v.add("b");
  v.add("ab", TokenType::Unused, 5);
  v->add_space_prefix = false;
  EXPECT_EQ(v.tokenizer()->encode("ab", false, false), (Ids{a, b}));
}

TEST(Decode, IdsOutsideTheVocabularyAreErrors) {
  EXPECT_THROW((void)demo().tokenizer->piece(-1), Error);
  EXPECT_THROW((void)demo().tokenizer->decode(Ids{4096}), Error);
}

}  // namespace
}  // namespace cria::testing
