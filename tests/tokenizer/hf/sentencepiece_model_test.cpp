#include "tokenizer/hf/formats.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include "model/error.h"
#include "tests/tokenizer/vocabularies.h"

namespace cria::testing {
namespace {

VocabularyBuilder read_pieces(const std::string& bytes, std::size_t tokens) {
  VocabularyBuilder builder(tokens, "tokenizer.model");
  read_sentencepiece_model(std::as_bytes(std::span(bytes)), "tokenizer.model", builder);
  return builder;
}

std::string pieces_error_in(const std::string& bytes) {
  try {
    read_pieces(bytes, 100);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SentencePieceModel, ComesBackAsItWas) {
  const Vocabulary& before = demo().vocabulary;
  const VocabularyBuilder builder = read_pieces(sentencepiece_model(before), before.tokens.size());
  const Vocabulary& after = builder.vocabulary();
  EXPECT_EQ(after.model, "llama");
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.types, before.types);
  EXPECT_EQ(after.scores, before.scores);
  EXPECT_EQ(after.bos, before.bos);
  EXPECT_EQ(after.eos, before.eos);
  EXPECT_EQ(after.unk, before.unk);
  EXPECT_EQ(after.add_space_prefix, before.add_space_prefix);
  EXPECT_EQ(after.remove_extra_whitespaces, before.remove_extra_whitespaces);
}

TEST(SentencePieceModel, TheLibraryReadsIt) {
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(sentencepiece_model(demo().vocabulary)).ok());
  EXPECT_EQ(library.GetPieceSize(), static_cast<int>(demo().vocabulary.tokens.size()));
  std::vector<int> ids;
  ASSERT_TRUE(library.Encode("Why is the sea salty?", &ids).ok());
  EXPECT_EQ(std::vector<TokenId>(ids.begin(), ids.end()),
            demo().tokenizer->encode("Why is the sea salty?", false, false));
}

TEST(SentencePieceModel, SpacesAndNormalization) {
  SmallVocabulary small;
  small->add_space_prefix = false;
  small->remove_extra_whitespaces = true;
  small->precompiled_charsmap = std::string("map\0s", 5);
  small->eos.reset();
  const VocabularyBuilder builder = read_pieces(sentencepiece_model(*small), small->tokens.size());
  EXPECT_FALSE(builder.vocabulary().add_space_prefix);
  EXPECT_TRUE(builder.vocabulary().remove_extra_whitespaces);
  EXPECT_EQ(builder.vocabulary().precompiled_charsmap, small->precompiled_charsmap);
  EXPECT_FALSE(builder.vocabulary().eos);
}

TEST(SentencePieceModel, FewerEmbeddingsThanPieces) {
  SmallVocabulary small;
  VocabularyBuilder builder = read_pieces(sentencepiece_model(*small), 10);
  builder.fill_holes();
  EXPECT_EQ(builder.vocabulary().tokens.size(), 10U);
  ASSERT_EQ(builder.vocabulary().warnings.size(), 1U);
  EXPECT_EQ(builder.vocabulary().warnings[0],
            "ignored: 249 tokens; the model has only 10 embeddings");
}

TEST(SentencePieceModel, RejectsInvalidFiles) {
  EXPECT_EQ(pieces_error_in(""),
            "tokenizer.model: not a SentencePiece model: expected pieces, got none");
  EXPECT_NE(pieces_error_in("\x0A").find("not a SentencePiece model"), std::string::npos);
  EXPECT_NE(pieces_error_in(std::string(100, '\xFF')).find("not a SentencePiece model"),
            std::string::npos);
  EXPECT_NE(
      pieces_error_in("\x0A\x02\x18\x07").find("unknown type of a piece: expected 1 to 6, got 7"),
      std::string::npos);
  EXPECT_NE(pieces_error_in("\x0A\x03\x0A\x01x\x12\x02\x18\x03").find("or BPE (2), got 3"),
            std::string::npos);
  EXPECT_EQ(read_pieces("\x0A\x03\x0A\x01x", 1).vocabulary().model, "t5")
      << "unigram is the format's default";
  EXPECT_NE(pieces_error_in("\x08\x01\x12\x02\x18\x02").find("expected pieces, got none"),
            std::string::npos)
      << "a number in place of the pieces";
  EXPECT_NE(pieces_error_in("\x1A\x01\x18").find("not a SentencePiece model"), std::string::npos)
      << "a flag cut short";
  // Cut anywhere, it is refused or read: never more.
  SmallVocabulary small;
  const std::string whole = sentencepiece_model(*small);
  for (std::size_t n = 0; n < whole.size(); n += 7) pieces_error_in(whole.substr(0, n));
}

}  // namespace
}  // namespace cria::testing
