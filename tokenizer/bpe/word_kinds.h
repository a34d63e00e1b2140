// The ways to cut texts into words, and the names that files have for them (tokenizer.ggml.pre).
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

namespace cria {

/// One way. The expressions are those of the models' own tokenizers (tokenizer.json), applied one
/// after the other.
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

// Before the `\s*[\r\n]+` of a model whose next expressions cut a run of spaces into many words:
// not again from each of these, as there is no line end behind a space that is a word's last.
inline constexpr std::string_view kNotAfterSpace = R"((?:(?<!\s)|(?<=[\r\n])))";

}  // namespace cria
