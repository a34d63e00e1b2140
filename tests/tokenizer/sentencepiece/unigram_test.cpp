// Unigram models: the SentencePiece library trains one with its normalization, and judges how texts
// are encoded with it.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/vocabularies.h"
#include "tokenizer/hf/formats.h"

namespace cria::testing {
namespace {

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::vector<std::string> all) : all_(std::move(all)) {}
  [[nodiscard]] bool done() const override { return at_ == all_.size(); }
  void Next() override { ++at_; }
  [[nodiscard]] const std::string& value() const override { return all_[at_]; }
  [[nodiscard]] sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> all_;
  std::size_t at_ = 0;
};

/// Characters that normalization changes, joins or drops, white space of many kinds, and bytes that
/// are no characters.
std::string unigram_text(std::mt19937& random, bool odd) {
  static const std::vector<std::string> alphabets[] = {
      {"the ", "ing ", "and ", "tion", "er", " of ", "is ", "ed ", "ly ", "s, ", ". ", "un", "re"},
      {"a", "b", "c", "d", "e", "i", "l", "n", "o", "r", "s", "t", "ab", "<x>", "Don't"},
      {"é", "ß", "Ж", "ы", "λ", "漢", "字", "の", "न", "ü", "한", "글"},
      {"ﬁ", "Å", "①", "ｶﾞ", "Ａ", "e\u0301", "\u00A0", "\u3000", "\u200B", "\u2581", "½",
       "\u1100\u1161"},
      {" ", "  ", "\n", "\t", "\u2028", "\xFF", "\xE2\x82", "🦙", "0", "42", "\u00AD"}};
  std::string text;
  for (std::size_t word = random() % 12; word > 0; --word) {
    const auto& alphabet = alphabets[random() % (odd ? 5 : 3)];
    for (std::size_t n = random() % 9; n > 0; --n) text += alphabet[random() % alphabet.size()];
    if (random() % 2 == 0) text += ' ';
  }
  return text;
}

void expect_same_tokens(const std::string& how) {
  SCOPED_TRACE(how);
  std::mt19937 random(9);
  std::vector<std::string> corpus;
  for (int i = 0; i < 1500; ++i) corpus.push_back(unigram_text(random, i % 10 == 0));
  Sentences sentences(corpus);
  std::string model;
  const auto trained = sentencepiece::SentencePieceTrainer::Train(
      "--model_type=unigram --vocab_size=400 --hard_vocab_limit=false --minloglevel=2 "
      "--num_threads=1 " +
          how,
      &sentences, &model);
  ASSERT_TRUE(trained.ok()) << trained.ToString();
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(model).ok());

  VocabularyBuilder builder(static_cast<std::size_t>(library.GetPieceSize()), "trained");
  read_sentencepiece_model(std::as_bytes(std::span(model)), "trained", builder);
  EXPECT_EQ(builder.vocabulary().model, "t5");
  const auto tokenizer = Tokenizer::create(builder.vocabulary());
  std::size_t tokens = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::string text = unigram_text(random, i % 2 == 0);
    std::vector<int> expected;
    ASSERT_TRUE(library.Encode(text, &expected).ok());
    std::vector<std::size_t> ends;
    const TextPart part{text, false};
    const std::vector<TokenId> ids = tokenizer->encode_parts({&part, 1}, &ends);
    std::size_t same = 0;
    while (same < ids.size() && same < expected.size() && ids[same] == expected[same]) ++same;
    ASSERT_TRUE(same == ids.size() && same == expected.size())
        << '"' << text << "\" differs at token " << same << ": expected "
        << (same < expected.size() ? library.IdToPiece(expected[same]) : "the end") << ", got "
        << (same < ids.size() ? library.IdToPiece(ids[same]) : "the end") << " after "
        << (same > 0 ? library.IdToPiece(ids[same - 1]) : "");
    ASSERT_EQ(ends.size(), ids.size());
    ASSERT_TRUE(std::ranges::is_sorted(ends));
    ASSERT_TRUE(ends.empty() || ends.back() <= text.size());
    tokens += expected.size();
  }
  EXPECT_GT(tokens, 40000U);
}

TEST(Unigram, TokensAreThoseOfTheLibrary) {
  expect_same_tokens("--normalization_rule_name=nmt_nfkc");
  expect_same_tokens("--normalization_rule_name=nmt_nfkc_cf --user_defined_symbols=<x>,ab");
  expect_same_tokens("--normalization_rule_name=identity --remove_extra_whitespaces=false");
  expect_same_tokens("--normalization_rule_name=nmt_nfkc --add_dummy_prefix=false");
  expect_same_tokens("--normalization_rule_name=nmt_nfkc --byte_fallback=true --vocab_size=700");
}

TEST(Unigram, TheLibraryReadsWhatIsWritten) {
  SmallVocabulary small(false);
  small->model = "t5";
  small.add("\u2581", TokenType::Normal, -3);
  small.add("a", TokenType::Normal, -1);
  small.add("\u2581a", TokenType::Normal, -1.5F);
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(sentencepiece_model(*small)).ok());
  std::vector<int> ids;
  ASSERT_TRUE(library.Encode("a aa?", &ids).ok());
  small->add_space_prefix = true;
  EXPECT_EQ(small.tokenizer()->encode("a aa?", false, false),
            std::vector<TokenId>(ids.begin(), ids.end()));
}

}  // namespace
}  // namespace cria::testing
