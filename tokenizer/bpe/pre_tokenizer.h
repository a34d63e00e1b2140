// Splits a text into the words that byte-pair merges do not cross, by the pre-tokenizer that the
// vocabulary names (tokenizer.ggml.pre).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/file/utf8.h"
#include "tokenizer/bpe/word_rules.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode/unicode.h"

namespace cria {

/// Immutable; safe to use from several threads.
class CharacterClasses {
 public:
  /// Finds the classes that these expressions tell apart. ASCII characters keep their bytes.
  explicit CharacterClasses(const std::vector<std::string_view>& expressions);

  /// The expression for texts of class bytes. It knows \p, \P, \s, \S, \d, brackets, and groups of
  /// any case, and leaves the rest as it is.
  [[nodiscard]] std::string translate(std::string_view expression) const;
  /// Appends the class byte of each character of a UTF-8 text.
  void append_classes(std::string_view text, std::string& classes) const;
  /// The class of each byte for WordScanner.
  [[nodiscard]] const WordClasses& word_classes() const { return word_classes_; }

 private:
  [[nodiscard]] std::string members(const CodeSet& set) const;

  std::vector<CodeSet> sets_;           ///< all sets of the expressions
  std::vector<char32_t> examples_;      ///< a character of each class beyond ASCII
  std::vector<std::uint8_t> class_of_;  ///< by code point
  WordClasses word_classes_;
};

// Digits in groups of three, counted from the end of a run ("1 234 567"). The models' expressions
// look ahead over the rest of the run at every place; counting once from its end gives the same
// splits in linear time.
inline constexpr std::string_view kCutsBeforeThrees = R"((?=(\d{3})+(?!\d)))";
inline constexpr std::string_view kDigitsInThreesAtWordEnds = R"(\d{1,3}(?=(?:\d{3})*\b))";
inline constexpr std::string_view kNumbersInThrees = R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))";

struct DigitGroups {
  std::string_view expression;
  std::string_view runs;  ///< an expression for whole runs of digits
  bool isolates;          ///< splits also around the run; else only before full groups

  /// Null for any other expression.
  static const DigitGroups* of(std::string_view expression);

  /// Calls sink(offset) for every split of a run of digits, from left to right.
  template <class Sink>
  void split(RegexSpan run, Sink&& sink) const {
    const std::size_t first = (run.end - run.begin) % 3;
    if (isolates && first != 0) sink(run.begin);
    for (std::size_t at = run.begin + first; at < run.end; at += 3) sink(at);
    if (isolates) sink(run.end);
  }
};

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

// Precedes the expression of a model's line ends whose next expressions split a run of spaces into
// many words. A space inside the run cannot start a match: no line end follows it.
inline constexpr std::string_view kNotAfterSpace = R"((?:(?<!\s)|(?<=[\r\n])))";

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
  /// True if a word that is a token is taken as it is, without merges.
  [[nodiscard]] bool ignores_merges() const { return ignore_merges_; }

  /// True if a word may contain a letter followed by a space; others are always split there.
  [[nodiscard]] bool joins_words() const { return joins_words_; }

  /// Calls sink(word) from left to right; joined they give the text. Invalid UTF-8 becomes
  /// words of its own.
  template <class Sink>
  void split(std::string_view text, Sink&& sink) const;

  /// For tests: uses the expressions only.
  void without_rules() {
    for (Stage& stage : stages_) stage.rules = WordRules::None;
  }

 private:
  /// One expression. Its matches and the texts between them go to the next stage.
  struct Stage {
    Regex regex;                ///< over bytes of CharacterClasses
    WordRules rules;            ///< find the same words without the expression
    const DigitGroups* groups;  ///< how a match, a run of digits, is split further; or null
  };

  explicit PreTokenizer(const WordKind& kind);

  template <class Sink>
  void split_valid(std::vector<Regex::Search>& searches, std::string_view text, Sink& sink) const;
  template <class Sink>
  void split_classes(std::vector<Regex::Search>& searches, std::size_t stage,
                     std::string_view classes, Sink& sink) const;

  CharacterClasses classes_;
  std::vector<Stage> stages_;
  bool ignore_merges_, joins_words_;
};

template <class Sink>
void PreTokenizer::split(std::string_view text, Sink&& sink) const {
  std::vector<Regex::Search> searches;
  searches.reserve(stages_.size());
  for (const Stage& stage : stages_) searches.emplace_back(stage.regex);
  while (!text.empty()) {
    const std::size_t valid = valid_prefix(text);
    if (valid > 0) split_valid(searches, text.substr(0, valid), sink);
    text.remove_prefix(valid);
    std::size_t invalid = 0;
    while (invalid < text.size() && !first_char(text.substr(invalid)).valid) ++invalid;
    if (invalid > 0) sink(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

template <class Sink>
void PreTokenizer::split_valid(std::vector<Regex::Search>& searches, std::string_view text,
                               Sink& sink) const {
  if (ascii_prefix(text) == text.size()) return split_classes(searches, 0, text, sink);
  std::string classes;
  classes_.append_classes(text, classes);
  auto word = [&](std::string_view characters) {
    std::size_t bytes = 0;
    for (const char c : characters)
      bytes += static_cast<unsigned char>(c) < 0x80 ? 1 : first_char(text.substr(bytes)).bytes;
    sink(text.substr(0, bytes));
    text.remove_prefix(bytes);
  };
  split_classes(searches, 0, classes, word);
}

template <class Sink>
void PreTokenizer::split_classes(std::vector<Regex::Search>& searches, std::size_t stage,
                                 std::string_view classes, Sink& sink) const {
  if (stage == stages_.size()) return sink(classes);
  const auto piece = [&](std::size_t begin, std::size_t end) {
    if (begin < end) split_classes(searches, stage + 1, classes.substr(begin, end - begin), sink);
  };
  const auto& [regex, rules, groups] = stages_[stage];
  std::size_t from = 0;
  if (rules != WordRules::None) {
    for (; from < classes.size();) {
      const std::size_t end = WordScanner(classes_.word_classes(), classes, from).end(rules);
      piece(from, end);
      from = end;
    }
    return;
  }
  for (std::size_t at = 0; at < classes.size();) {
    const auto match = searches[stage].next(classes, at);
    if (!match) break;
    const auto split_at = [&](std::size_t place) {
      piece(from, place);
      from = place;
    };
    if (groups != nullptr) {
      groups->split(*match, split_at);
    } else {
      split_at(match->begin);
      split_at(match->end);
    }
    at = match->end;
  }
  piece(from, classes.size());
}

}  // namespace cria
