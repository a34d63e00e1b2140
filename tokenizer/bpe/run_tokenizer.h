// The base of all tokenizers: finds special tokens first, then encodes the runs of text between
// them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/bpe/special_tokens.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// Collects tokens and, if requested, the offsets of their ends.
class TokenSink {
 public:
  explicit TokenSink(std::vector<std::size_t>* ends) : ends_(ends) {}

  /// The run's text begins at this offset of the whole text.
  void begin_run(std::size_t offset) { offset_ = offset; }
  [[nodiscard]] bool wants_ends() const { return ends_ != nullptr; }
  /// A token; its bytes end at `end` of the run.
  void push(TokenId id, std::size_t end) {
    ids_.push_back(id);
    if (ends_ != nullptr) ends_->push_back(offset_ + end);
  }
  /// Several tokens whose ends are not wanted.
  void push(std::span<const TokenId> ids) { ids_.insert(ids_.end(), ids.begin(), ids.end()); }
  /// The last token reaches to here.
  void extend(std::size_t end) {
    if (ends_ != nullptr) ends_->back() = offset_ + end;
  }
  [[nodiscard]] std::vector<TokenId>& ids() { return ids_; }

 private:
  std::vector<TokenId> ids_;
  std::vector<std::size_t>* ends_;
  std::size_t offset_ = 0;
};

class RunTokenizer : public Tokenizer {
 public:
  [[nodiscard]] std::vector<TokenId> encode_parts(std::span<const TextPart> parts,
                                                  std::vector<std::size_t>* ends,
                                                  bool continues_text) const final;
  [[nodiscard]] std::size_t last_safe_split(std::string_view text, std::size_t from) const final;
  [[nodiscard]] const Vocabulary& vocabulary() const noexcept final { return vocabulary_; }

 protected:
  /// Throws Error if the vocabulary is inconsistent.
  explicit RunTokenizer(const Vocabulary& vocabulary);

  /// A text without special tokens, perhaps with a dummy space in front.
  virtual void encode_run(std::string_view run, TokenSink& sink) const = 0;
  /// True if no token contains this letter and a space after it, and both sides encode the same
  /// together and apart.
  [[nodiscard]] virtual bool splits_after(char letter) const = 0;
  /// Finds tokens as they are written; call once. spelling(id): the token's text in the text to
  /// encode; "" for a token that encode_run() finds.
  template <class Spelling>
  void find_special_tokens(Spelling&& spelling) {
    std::vector<SpecialTokens::Entry> entries;
    for (TokenId id = 0; id < static_cast<TokenId>(roles_.size()); ++id) {
      if (!is_special(role_of(id)) || text_of(id).empty()) continue;
      std::string text = spelling(id);
      if (text.empty()) continue;
      entries.push_back({std::move(text), id, role_of(id) != TokenRole::UserDefined,
                         vocabulary_.strips_before(id), vocabulary_.strips_after(id)});
    }
    for (const SpecialTokens::Entry& entry : entries) note_special(entry.text);
    specials_ = SpecialTokens(std::move(entries));
  }
  [[nodiscard]] std::string_view text_of(TokenId id) const {
    return vocabulary_.tokens[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] TokenRole role_of(TokenId id) const { return roles_[static_cast<std::size_t>(id)]; }
  /// Throws Error if the vocabulary has no such token.
  void require_id(TokenId id) const;
  /// The token that stands for what has none, if there is one.
  [[nodiscard]] std::optional<TokenId> unknown_token() const;

 private:
  class Encoder;
  void note_special(std::string_view text);

  const Vocabulary& vocabulary_;
  std::vector<TokenRole> roles_;  ///< by id
  SpecialTokens specials_;
  bool specials_cross_splits_ = false;
};

// Vocabularies of kind "gpt2": byte-level byte-pair encoding with merges by rank.

/// Throws Error if the vocabulary is inconsistent or its pre-tokenizer unknown. The vocabulary must
/// outlive the tokenizer.
std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(const Vocabulary& vocabulary);

// Vocabularies of kind "llama", SentencePiece models with byte-pair merges by score; and of kind
// "gemma4", which write spaces and bytes as these do but list their merges.

/// True if the vocabulary is of the second kind, by its model or by its pre-tokenizer.
bool merges_are_listed(const Vocabulary& vocabulary);

/// Throws Error if the vocabulary is inconsistent. The vocabulary must outlive the tokenizer.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const Vocabulary& vocabulary);

// tokenizer/pieces/: vocabularies of kind "bert" (WordPiece) and "t5" (SentencePiece's Unigram).
// Both change texts before they look for tokens, so decoding does not return a text byte for byte.

/// As make_sentencepiece_tokenizer().
std::unique_ptr<Tokenizer> make_word_piece_tokenizer(const Vocabulary& vocabulary);
/// As make_sentencepiece_tokenizer().
std::unique_ptr<Tokenizer> make_unigram_tokenizer(const Vocabulary& vocabulary);

}  // namespace cria
