// Cuts a text into the words that byte-pair merges do not cross, as the tokenizer.ggml.pre
// of a vocabulary says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/file/utf8.h"
#include "tokenizer/bpe/ascii_words.h"
#include "tokenizer/bpe/digit_groups.h"
#include "tokenizer/regex.h"

namespace cria {

/// Immutable; safe to use from several threads.
class PreTokenizer {
 public:
  /// By a name that files use; "" is "default". Throws Error (lists the known ones) for any other.
  explicit PreTokenizer(std::string_view name);

  /// Every name, in the table's order.
  static std::vector<std::string_view> names();
  /// The name for the expressions of a tokenizer.json, applied one after the other, or "" if none
  /// cuts so. Where only ignores_merges() would differ, that is the name.
  static std::string_view name_of(const std::vector<std::string>& expressions, bool ignores_merges);
  /// The expressions of a kind, characters as they are, as tokenizer.json has them. Throws
  /// Error as the constructor.
  static std::vector<std::string> expressions(std::string_view name);
  /// Whether vocabularies of this kind take a word that is a token whole, whatever their merges
  /// would make of it.
  [[nodiscard]] bool ignores_merges() const { return ignore_merges_; }

  /// Whether a word may hold a letter and a space after it; elsewhere texts are always cut between
  /// these.
  [[nodiscard]] bool joins_words() const { return joins_words_; }

  /// Calls sink(word) for every word, from left to right; together they are the text. Bytes that
  /// are no UTF-8 form words of their own.
  template <class Sink>
  void split(std::string_view text, Sink&& sink) const;

  /// Only for tests: split without the shortcut for ASCII.
  void without_shortcuts() {
    for (Stage& stage : stages_) stage.words = AsciiWords::None;
  }

 private:
  /// One regular expression: its matches and what lies between them are the pieces for the next
  /// one.
  struct Stage {
    Regex regex;
    AsciiWords words;           ///< the same words in ASCII text without the expression
    const DigitGroups* groups;  ///< how a match, a run of digits, is cut further; or null
  };

  template <class Sink>
  void split_valid(std::vector<Regex::Search>& searches, std::size_t stage, std::string_view text,
                   Sink& sink) const;

  std::vector<Stage> stages_;
  bool ignore_merges_ = false, joins_words_ = false;
};

template <class Sink>
void PreTokenizer::split(std::string_view text, Sink&& sink) const {
  std::vector<Regex::Search> searches;
  searches.reserve(stages_.size());
  for (const Stage& stage : stages_) searches.emplace_back(stage.regex);
  while (!text.empty()) {
    const std::size_t valid = valid_prefix(text);
    if (valid > 0) split_valid(searches, 0, text.substr(0, valid), sink);
    text.remove_prefix(valid);
    std::size_t invalid = 0;
    while (invalid < text.size() && !first_char(text.substr(invalid)).valid) ++invalid;
    if (invalid > 0) sink(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

template <class Sink>
void PreTokenizer::split_valid(std::vector<Regex::Search>& searches, std::size_t stage,
                               std::string_view text, Sink& sink) const {
  if (stage == stages_.size()) return sink(text);
  const auto piece = [&](std::size_t begin, std::size_t end) {
    if (begin < end) split_valid(searches, stage + 1, text.substr(begin, end - begin), sink);
  };
  if (stages_[stage].groups != nullptr) {
    std::size_t from = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto run = searches[stage].next(text, at);
      if (!run) break;
      stages_[stage].groups->cut(text, *run, [&](std::size_t cut) {
        piece(from, cut);
        from = cut;
      });
      at = run->end;
    }
    return piece(from, text.size());
  }
  const AsciiWords words = stages_[stage].words;
  for (std::size_t at = 0; at < text.size();) {
    if (const std::size_t end = ascii_word_end(words, text, at); end > at) {
      piece(at, end);
      at = end;
      continue;
    }
    const auto match = searches[stage].next(text, at);
    if (!match) return piece(at, text.size());
    piece(at, match->begin);
    piece(match->begin, match->end);
    at = match->end;
  }
}

}  // namespace cria
