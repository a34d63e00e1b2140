// Python's string functions on texts; the authors of the bytes are kept.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/values/text.h"

namespace cria::jinja {

enum class Side : std::uint8_t { Left, Right, Both };

/// Position of the first occurrence at or after `from`, or npos. Linear time.
std::size_t find(std::string_view text, std::string_view needle, std::size_t from = 0);

/// Position of the last occurrence, or npos. Linear time.
std::size_t find_last(std::string_view text, std::string_view needle);

/// Without the given characters at its ends; by default without white space.
Text strip(const Text& text, const std::optional<Text>& characters, Side side);
/// Parts between separators (not empty), at most `most` cuts; < 0: all.
std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t most);
std::vector<Text> split_from_right(const Text& text, std::string_view separator, std::int64_t most);
/// Parts between runs of white space, which are not parts at the ends either.
std::vector<Text> split_words(const Text& text, std::int64_t most);
std::vector<Text> split_words_from_right(const Text& text, std::int64_t most);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
/// At most `most` occurrences (< 0: all). An empty `old` stands before every character and at the
/// end.
Text replace(const Text& text, std::string_view old, const Text& with, std::int64_t most);
/// The bytes as `change` maps them, run by run.
Text map_runs(const Text& text, const std::function<std::string(std::string_view)>& change);
Text capitalize(const Text& text);
/// Every word in title case; as str.title: a word is a run of letters.
Text title(const Text& text);
Text swap_case(const Text& text);
/// Filled up to a width in characters.
Text pad(const Text& text, std::size_t width, const Text& fill, Side text_side);

}  // namespace cria::jinja
