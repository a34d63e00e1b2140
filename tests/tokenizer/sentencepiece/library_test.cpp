// The SentencePiece library as a judge: given the same vocabulary it must merge every text
// into the same tokens.
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <protozero/pbf_writer.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

/// Serializes a vocabulary for the library (field numbers of sentencepiece_model.proto): merges by
/// score, byte fallback, no normalization except spaces to U+2581, and one before the text.
std::string serialized(const Vocabulary& vocabulary) {
  std::string bytes;
  protozero::pbf_writer model(bytes);
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    protozero::pbf_writer piece(model, 1);
    piece.add_string(1, std::string(vocabulary.tokens[id]));
    piece.add_float(2, vocabulary.scores[id]);
    piece.add_enum(
        3,
        static_cast<std::int32_t>(vocabulary.types[id]));  // GGUF numbers them as the library does
  }
  {
    protozero::pbf_writer trainer(model, 2);
    trainer.add_enum(3, 2);      // model_type: BPE
    trainer.add_bool(35, true);  // byte_fallback
  }
  protozero::pbf_writer normalizer(model, 3);
  normalizer.add_string(1, "identity");
  normalizer.add_bool(3, true);   // add_dummy_prefix
  normalizer.add_bool(4, false);  // remove_extra_whitespaces
  normalizer.add_bool(5, true);   // escape_whitespaces
  return bytes;
}

/// Realistic words and random ones.
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> alphabets[] = {
      {"a", "b", "c", "d", "e", "f", "g", "h", "i", "l", "m", "n", "o", "r", "s", "t", "u", "y"},
      {"the ", "ing ", "and ", "tion", "er", " of ", "is ", "ed ", "ly ", "s, ", ". ", "un", "re"},
      {" ", "  ", "\n", "\t", "=", "-", "0", "1", "42", "1999", "(", ")", "@", "\"", "'s"},
      {"é", "ß", "Ж", "ы", "λ", "漢", "字", "の", "🦙", "न", "\xE2\x80\x94"}};
  std::string text;
  for (std::size_t word = random() % 12; word > 0; --word) {
    const auto& alphabet = alphabets[random() % 4];
    for (std::size_t n = random() % 14; n > 0; --n) text += alphabet[random() % alphabet.size()];
    if (random() % 2 == 0) text += ' ';
  }
  return text;
}

TEST(SentencePieceLibrary, MergesMatch) {
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(serialized(demo().vocabulary)).ok());
  std::mt19937 random(5);
  std::size_t tokens = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = random_text(random);
    std::vector<int> expected;
    ASSERT_TRUE(library.Encode(text, &expected).ok());
    ASSERT_EQ(demo().tokenizer->encode(text, false, false),
              std::vector<TokenId>(expected.begin(), expected.end()))
        << '"' << text << '"';
    tokens += expected.size();
  }
  EXPECT_GT(tokens, 30000U);
}

}  // namespace
}  // namespace cria::testing
