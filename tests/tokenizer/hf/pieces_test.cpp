// Directories with WordPiece and Unigram vocabularies: the tokens that GGUF files have.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/error.h"
#include "tests/tokenizer/vocabularies.h"
#include "tokenizer/hf/vocabulary.h"

namespace cria::testing {
namespace {

namespace fs = std::filesystem;

class Directory {
 public:
  Directory() : path_(fs::temp_directory_path() / ("cria-pieces-" + std::to_string(getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Directory() { fs::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }
  [[nodiscard]] HfVocabulary read(std::size_t tokens) const {
    HfVocabularyOptions options;
    options.tokens = tokens;
    return read_hf_vocabulary(path_.string(), options);
  }

 private:
  fs::path path_;
};

const std::vector<std::string> kBertTokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
                                              "hello", "##s",   "##",    ","};
const std::vector<std::string_view> kMarked = {"[PAD]",  "[UNK]", "[CLS]", "[SEP]", "[MASK]",
                                               "▁hello", "s",     "▁##",   "▁,"};

void expect_bert(const Vocabulary& v, bool lower_case, bool strip_accents) {
  EXPECT_EQ(v.model, "bert");
  EXPECT_EQ(v.tokens, kMarked);
  EXPECT_EQ(v.types[1], TokenType::Unknown);
  for (const std::size_t id : {0, 2, 3, 4}) EXPECT_EQ(v.types[id], TokenType::Control) << id;
  EXPECT_EQ(v.unk, 1);
  EXPECT_EQ(v.bos, 2);
  EXPECT_EQ(v.eos, 3);
  EXPECT_EQ(v.sep, 3);
  EXPECT_TRUE(v.add_bos && v.add_eos);
  EXPECT_EQ(v.lower_case, lower_case);
  EXPECT_EQ(v.strip_accents, strip_accents);
  const auto tokenizer = Tokenizer::create(v);
  EXPECT_EQ(tokenizer->encode("hellos, x", true, false), (std::vector<TokenId>{2, 5, 6, 8, 1, 3}));
}

TEST(HfPieces, ReadsVocabTxt) {
  const Directory directory;
  std::string lines;
  for (const std::string& token : kBertTokens) lines += token + "\n";
  directory.write("vocab.txt", lines);
  expect_bert(directory.read(9).vocabulary(), true, true);
  directory.write("tokenizer_config.json", R"({"do_lower_case": false, "strip_accents": null})");
  expect_bert(directory.read(9).vocabulary(), false, false);
}

TEST(HfPieces, ReadsWordPieceJson) {
  const Directory directory;
  nlohmann::json vocabulary, added = nlohmann::json::array();
  for (std::size_t id = 0; id < kBertTokens.size(); ++id) {
    vocabulary[kBertTokens[id]] = id;
    if (id < 5) added.push_back({{"id", id}, {"content", kBertTokens[id]}, {"special", true}});
  }
  nlohmann::json json = {
      {"added_tokens", added},
      {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", false}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocabulary}}}};
  directory.write("tokenizer.json", json.dump());
  expect_bert(directory.read(9).vocabulary(), true, false);
  json["normalizer"]["type"] = "NFD";
  directory.write("tokenizer.json", json.dump());
  EXPECT_THROW((void)directory.read(9), Error);
}

TEST(HfPieces, ReadsUnigramJson) {
  using Pair = std::pair<std::string, double>;
  const Directory directory;
  nlohmann::json json = {
      {"added_tokens", {{{"id", 0}, {"content", "<s>"}, {"special", true}}}},
      {"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "BAAAAAAAAAA="}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", {{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}}}}}},
      {"model",
       {{"type", "Unigram"},
        {"unk_id", 1},
        {"vocab", nlohmann::json::array(
                      {Pair{"<s>", 0}, Pair{"<unk>", 0}, Pair{"▁a", -1.5}, Pair{"b", -2}})}}}};
  directory.write("tokenizer.json", json.dump());
  const HfVocabulary read = directory.read(4);
  const Vocabulary& v = read.vocabulary();
  EXPECT_EQ(v.model, "t5");
  EXPECT_EQ(v.scores, (std::vector<float>{0, 0, -1.5F, -2}));
  EXPECT_EQ(v.types[0], TokenType::Control);
  EXPECT_EQ(v.types[1], TokenType::Unknown);
  EXPECT_EQ(v.precompiled_charsmap, std::string("\4\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(Tokenizer::create(v)->encode("  ab c ", false, false), (std::vector<TokenId>{2, 3, 1}));
  json["model"]["unk_id"] = 4;
  directory.write("tokenizer.json", json.dump());
  EXPECT_THROW((void)directory.read(4), Error);
}

TEST(HfPieces, XlmRobertaShiftsItsPieces) {
  SmallVocabulary pieces(false);
  pieces->model = "t5";
  pieces->remove_extra_whitespaces = true;
  pieces.add("▁a", TokenType::Normal, -1);
  pieces.add("b", TokenType::Normal, -2);
  const Directory directory;
  directory.write("sentencepiece.bpe.model", sentencepiece_model(*pieces));
  const HfVocabulary read = directory.read(7);
  const Vocabulary& v = read.vocabulary();
  EXPECT_EQ(v.tokens,
            (std::vector<std::string_view>{"<s>", "<pad>", "</s>", "<unk>", "▁a", "b", "<mask>"}));
  EXPECT_EQ(Tokenizer::create(v)->encode("ab?", true, false),
            (std::vector<TokenId>{0, 4, 5, 3, 2}));
}

}  // namespace
}  // namespace cria::testing
