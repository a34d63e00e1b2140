// Digits in groups of three, counted from the end of a run ("1 234 567"). The models' expressions
// look ahead over the rest of the run at every place; counting once from its end gives the same
// cuts in linear time.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/file/utf8.h"
#include "tokenizer/bpe/ascii_words.h"
#include "tokenizer/regex.h"

namespace cria {

// The expressions as the models' tokenizers have them.
inline constexpr std::string_view kCutsBeforeThrees = R"((?=(\d{3})+(?!\d)))";
inline constexpr std::string_view kDigitsInThreesAtWordEnds = R"(\d{1,3}(?=(?:\d{3})*\b))";
inline constexpr std::string_view kNumbersInThrees = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";

struct DigitGroups {
  std::string_view expression;
  std::string_view run;  ///< an expression for the whole runs that are cut
  bool isolates;         ///< cuts also around the run; else only before full groups

  /// Null for any other expression.
  static const DigitGroups* of(std::string_view expression);

  /// Calls sink(offset) for every cut of a run in the text, from left to right.
  template <class Sink>
  void cut(std::string_view text, RegexSpan span, Sink&& sink) const {
    std::vector<std::size_t> digits;  // offsets; digits of some scripts have several bytes
    for (std::size_t at = span.begin; at < span.end; ++at)
      if ((text[at] & 0xC0) != 0x80) digits.push_back(at);
    if (isolates && digits.size() % 3 != 0) sink(span.begin);
    for (std::size_t i = digits.size() % 3; i < digits.size(); i += 3) sink(digits[i]);
    if (isolates) sink(span.end);
  }
};

// The ways to cut texts into words, and the names that files have for them (tokenizer.ggml.pre).

/// One pre-tokenizer. Its expressions come from the models' own tokenizer.json and are applied in
/// order.
struct WordKind {
  std::initializer_list<std::string_view> names;
  std::initializer_list<std::string_view> patterns;
  bool ignore_merges = false;  ///< a word that is a token is taken whole
  bool joins_words = false;    ///< a word may hold a letter and a space after it
};

std::span<const WordKind> word_kinds();

// Expressions that are known elsewhere too.
inline constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kTiktoken3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kTiktoken1 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// `\s+$` of the models, but not again from every space of a run that does not end the text.
inline constexpr std::string_view kSpaceAtEnd = R"((?<!\s)\s++\z)";

// Precedes the `\s*[\r
// ]+` of a model whose next expressions split a run of spaces into many pre-tokens. A space inside
// the run cannot start a match: no line end follows it.
inline constexpr std::string_view kNotAfterSpace = R"((?:(?<!\s)|(?<=[\r\n])))";

// Cuts a text into the words that byte-pair merges do not cross, as the tokenizer.ggml.pre
// of a vocabulary says.

/// Immutable; safe to use from several threads.
class PreTokenizer {
 public:
  /// Finds a pre-tokenizer by the name in the file; "" is "default". Throws Error that lists the
  /// known names.
  explicit PreTokenizer(std::string_view name);

  /// Every name, in the table's order.
  static std::vector<std::string_view> names();
  /// The name for the expressions of a tokenizer.json, applied one after the other, or "" if none
  /// cuts so. Where only ignores_merges() would differ, that is the name.
  static std::string_view name_of(const std::vector<std::string>& expressions, bool ignores_merges);
  /// The expressions of a kind, characters as they are, as tokenizer.json has them. Throws
  /// Error as the constructor.
  static std::vector<std::string> expressions(std::string_view name);
  /// True if a pre-token that is a token is taken as it is, without merges.
  [[nodiscard]] bool ignores_merges() const { return ignore_merges_; }

  /// True if a pre-token may contain a letter followed by a space; others are always split there.
  [[nodiscard]] bool joins_words() const { return joins_words_; }

  /// Calls sink(pre_token) from left to right; joined they give the text. Invalid UTF-8 becomes
  /// pre-tokens of its own.
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
