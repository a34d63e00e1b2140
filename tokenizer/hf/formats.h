// A vocabulary under construction, and the two file formats it can come from:
// tokenizer.json of the tokenizers library (https://github.com/huggingface/tokenizers) and
// tokenizer.model of SentencePiece, a protocol buffer
// (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto).
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/file/json.h"
#include "model/vocabulary.h"

namespace cria {

/// Has one token per embedding of the model; owns their texts.
class VocabularyBuilder {
 public:
  /// tokens: rows of the model's embedding. file: the source, for errors.
  VocabularyBuilder(std::size_t tokens, std::string file);
  VocabularyBuilder(const VocabularyBuilder&) = delete;
  VocabularyBuilder& operator=(const VocabularyBuilder&) = delete;
  VocabularyBuilder(VocabularyBuilder&&) = default;
  VocabularyBuilder& operator=(VocabularyBuilder&&) = default;

  /// Throws Error for a text that is too long or an id that already has one. Ids without an
  /// embedding are counted and ignored.
  void add(std::uint64_t id, std::string_view text, TokenType type, float score = 0);
  /// Adds or marks a token that the file lists apart from the model: Control if special, else
  /// UserDefined.
  void add_extra(std::uint64_t id, std::string_view text, bool special);
  /// The next merge, "left right".
  void add_merge(std::string text) {
    vocabulary_.merges.push_back(texts_.emplace_back(std::move(text)));
  }
  /// Makes a Normal or UserDefined token a Control token.
  void mark_control(TokenId id);

  [[nodiscard]] std::optional<TokenId> find(std::string_view text) const;
  [[nodiscard]] bool has(std::uint64_t id) const { return id < used_.size() && used_[id]; }
  /// Gives ids without a text one ("[PAD7]", Unused), and warns of ignored tokens.
  void fill_holes();

  Vocabulary& vocabulary() { return vocabulary_; }
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  void set(std::uint64_t id, std::string_view text, TokenType type, float score);

  std::string file_;
  std::deque<std::string> texts_;
  std::vector<bool> used_;
  std::unordered_map<std::string_view, TokenId> ids_;
  std::size_t ignored_ = 0;
  Vocabulary vocabulary_;
};

struct TokenizerJsonOptions {
  std::string pre = {};        ///< name of the pre-tokenizer; "": detected
  bool listed_merges = false;  ///< a byte-fallback vocabulary keeps its merges
};

/// Adds tokens and merges, and sets the model, the pre-tokenizer and whether BOS and EOS are added.
/// Byte-level vocabularies become "gpt2". Byte-fallback vocabularies (<0x0A>) become "llama", with
/// scores in the order of merges, or "gemma4", with a list of merges. WordPiece becomes "bert",
/// Unigram "t5". Throws Error for others, and if the pre-tokenizer is neither given nor detected.
void read_tokenizer_json(const SortedJson& json, const std::string& file,
                         const TokenizerJsonOptions& options, VocabularyBuilder& to);

/// Begins a token of a "bert" vocabulary that begins a word.
inline const std::string kWordMark = "\xE2\x96\x81";
/// Adds BERT's tokens by id, which mark those that continue a word by "##", and sets the model.
/// Added tokens must be set afterwards, since they are not marked. unknown: the token for unknown
/// words.
void add_word_pieces(std::span<const std::string> tokens, const std::string& unknown,
                     VocabularyBuilder& to);

/// A token that is listed apart from the model: control, user-defined and unknown ones. As both
/// tokenizer.json and tokenizer_config.json describe it.
bool is_added(TokenType type);
SortedJson added_token(const Vocabulary& vocabulary, std::size_t id);

/// Reads what a tokenizer.model lacks: added tokens, and whether BOS and EOS are added.
void read_added_tokens(const SortedJson& json, const std::string& file, VocabularyBuilder& to);

/// The tokenizer.json of a "gpt2" vocabulary.
SortedJson tokenizer_json(const Vocabulary& vocabulary);

/// Adds the pieces, and sets special ids, spaces and normalization. Throws Error for other files
/// and for models other than BPE ("llama") and Unigram ("t5").
void read_sentencepiece_model(std::span<const std::byte> bytes, const std::string& file,
                              VocabularyBuilder& to);

/// A member, or null if it is missing.
const SortedJson& json_member(const SortedJson& object, const char* key);
/// nullopt, or the fallback, unless the member has that type.
std::optional<std::string> json_text(const SortedJson& object, const char* key);
bool json_flag(const SortedJson& object, const char* key, bool fallback);

/// The bytes of the tokenizer.model of a "llama" or "t5" vocabulary.
std::string sentencepiece_model(const Vocabulary& vocabulary);

}  // namespace cria
