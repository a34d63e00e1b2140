// Characters of UTF-8 text as Python's str sees them. Bytes that are not UTF-8 count as one
// character each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cria::jinja {

/// Characters of a text.
std::size_t length(std::string_view text);
/// Byte offset of a character (size() past the end).
std::size_t offset_of(std::string_view text, std::size_t character);
/// Byte offset of the last character before byte `at`, which is above 0.
std::size_t previous_char(std::string_view text, std::size_t at);

/// True for white space by Python's str.isspace and the \s of its regular expressions.
bool is_space(char32_t c) noexcept;
/// True for line breaks of str.splitlines. Callers treat a CR LF pair as one break.
bool is_line_break(char32_t c) noexcept;
/// True if repr shows the character as it is: not control, format, private use or unassigned, and
/// no white space except " ".
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_word(char32_t c);  ///< a letter, a number or _
bool is_upper(char32_t c);
bool is_lower(char32_t c);
/// Has upper and lower case forms, or is a title case letter.
bool is_cased(char32_t c);

/// Full case mappings of Unicode ("ß" becomes "SS"), no language's own rules.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// Every letter in title case ("ǆ" becomes "ǅ").
std::string title_case(std::string_view text);
std::string case_fold(std::string_view text);

// Text that remembers who wrote it, byte by byte.

/// Bytes in runs of one author each: the template (trusted: its markers become control tokens) or
/// the user. Every operation of the interpreter keeps the authors, so that no filter makes user
/// text trusted.
class Text {
 public:
  struct Run {
    std::size_t end;  ///< where it ends; it begins where the run before it ends
    bool trusted;
    bool operator==(const Run&) const = default;
  };

  Text() = default;
  Text(std::string bytes, bool trusted);

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  /// Neighbouring runs differ in trust; none is empty.
  [[nodiscard]] std::span<const Run> runs() const noexcept { return runs_; }
  /// True if the byte's author is trusted; past the end: the last byte's author (empty texts:
  /// true).
  [[nodiscard]] bool trusted_at(std::size_t at) const;
  /// Bytes begin to end - 1.
  [[nodiscard]] Text part(std::size_t begin, std::size_t end) const;
  /// True for Python's Markup: what is added to it is escaped as HTML. Parts are markup too.
  [[nodiscard]] bool is_markup() const noexcept { return markup_; }
  void set_markup(bool markup) { markup_ = markup; }
  /// The same bytes, all of them trusted or not.
  [[nodiscard]] Text as(bool trusted) const { return {bytes_, trusted}; }

  void append(const Text& more) { append(more, 0, more.size()); }
  void append(const Text& more, std::size_t begin, std::size_t end);
  void append(std::string_view bytes, bool trusted);

 private:
  std::string bytes_;
  std::vector<Run> runs_;
  bool markup_ = false;
};

// Python's string functions on texts; the authors of the bytes are kept.

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
/// With & < > ' " as entities of HTML; markup as it is.
Text escaped(const Text& text);
/// Filled up to a width in characters.
Text pad(const Text& text, std::size_t width, const Text& fill, Side text_side);

}  // namespace cria::jinja
