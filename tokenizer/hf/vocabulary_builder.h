// A vocabulary in the making, of as many tokens as a model has embeddings; owns their texts.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/vocabulary.h"

namespace cria {

class VocabularyBuilder {
 public:
  /// tokens: rows of the model's embedding. file names the source in errors.
  VocabularyBuilder(std::size_t tokens, std::string file);
  VocabularyBuilder(const VocabularyBuilder&) = delete;
  VocabularyBuilder& operator=(const VocabularyBuilder&) = delete;
  VocabularyBuilder(VocabularyBuilder&&) = default;
  VocabularyBuilder& operator=(VocabularyBuilder&&) = default;

  /// Throws Error for a text that is too long or an id that has a text already. An id without an
  /// embedding is left out and counted.
  void add(std::uint64_t id, std::string_view text, TokenType type, float score = 0);
  /// A token that stands beside the model's own list, or marks one of that list: special ones
  /// become Control, others UserDefined.
  void add_extra(std::uint64_t id, std::string_view text, bool special);
  /// The next merge, "left right".
  void add_merge(std::string text) {
    vocabulary_.merges.push_back(texts_.emplace_back(std::move(text)));
  }
  /// Makes a token a Control one unless it is something else than text.
  void mark_control(TokenId id);

  [[nodiscard]] std::optional<TokenId> find(std::string_view text) const;
  [[nodiscard]] bool has(std::uint64_t id) const { return id < used_.size() && used_[id]; }
  /// Gives the ids without a text one ("[PAD7]", Unused), and says in the warnings what was left
  /// out.
  void fill_holes();

  Vocabulary& vocabulary() { return vocabulary_; }
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  void set(std::uint64_t id, std::string_view text, TokenType type, float score);

  std::string file_;
  std::deque<std::string> texts_;
  std::vector<bool> used_;
  std::unordered_map<std::string_view, TokenId> ids_;
  std::size_t left_out_ = 0;
  Vocabulary vocabulary_;
};

}  // namespace cria
