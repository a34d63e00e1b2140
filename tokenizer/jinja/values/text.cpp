#include "tokenizer/jinja/values/text.h"

#include <unicase.h>
#include <unictype.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <unordered_set>
#include <utility>

#include "model/file/utf8.h"

namespace cria::jinja {

Text::Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), trusted});
}

bool Text::trusted_at(std::size_t at) const {
  if (runs_.empty()) return true;
  const auto run = std::ranges::upper_bound(runs_, at, {}, &Run::end);
  return run == runs_.end() ? runs_.back().trusted : run->trusted;
}

Text Text::part(std::size_t begin, std::size_t end) const {
  Text out;
  out.append(*this, begin, end);
  out.markup_ = markup_;
  return out;
}

void Text::append(const Text& more, std::size_t begin, std::size_t end) {
  auto run = std::ranges::upper_bound(more.runs_, begin, {}, &Run::end);
  for (std::size_t at = begin; at < end; ++run) {
    const std::size_t stop = std::min(end, run->end);
    append(std::string_view(more.bytes_).substr(at, stop - at), run->trusted);
    at = stop;
  }
}

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().trusted == trusted)
    runs_.back().end = bytes_.size();
  else
    runs_.push_back({bytes_.size(), trusted});
}

namespace {

bool in_category(char32_t c, std::uint32_t mask) {
  return uc_is_general_category_withtable(c, mask);
}

using Mapping = std::uint8_t* (*)(const std::uint8_t*, std::size_t, const char*, uninorm_t,
                                  std::uint8_t*, std::size_t*);

void map_valid(std::string_view text, Mapping mapping, std::string& out) {
  if (text.empty()) return;
  std::size_t size = 0;
  const std::unique_ptr<std::uint8_t, void (*)(void*)> mapped(
      mapping(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), nullptr, nullptr,
              nullptr, &size),
      &std::free);
  if (mapped == nullptr) throw std::bad_alloc();
  out.append(reinterpret_cast<const char*>(mapped.get()), size);
}

// The library refuses text that is not UTF-8: such bytes are copied, what lies between them is
// mapped.
std::string map(std::string_view text, Mapping mapping) {
  std::string out;
  std::size_t begin = 0;
  each_char(text, [&](const Utf8Char& c, std::size_t at) {
    if (c.valid) return;
    map_valid(text.substr(begin, at - begin), mapping, out);
    out += text[at];
    begin = at + 1;
  });
  map_valid(text.substr(begin), mapping, out);
  return out;
}

}  // namespace

std::size_t length(std::string_view text) {
  std::size_t n = 0;
  each_char(text, [&](const Utf8Char&, std::size_t) { ++n; });
  return n;
}

std::size_t offset_of(std::string_view text, std::size_t character) {
  std::size_t at = 0;
  for (; character > 0 && at < text.size(); --character) at += first_char(text.substr(at)).bytes;
  return at;
}

std::size_t previous_char(std::string_view text, std::size_t at) {
  for (std::size_t bytes = 4; bytes > 1; --bytes) {
    if (bytes > at) continue;
    const Utf8Char c = first_char(text.substr(at - bytes, bytes));
    if (c.valid && c.bytes == bytes) return at - bytes;
  }
  return at - 1;
}

bool is_space(char32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) noexcept {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_printable(char32_t c) {
  return c == U' ' || !in_category(c, UC_CATEGORY_MASK_C | UC_CATEGORY_MASK_Z);
}
bool is_alpha(char32_t c) { return in_category(c, UC_CATEGORY_MASK_L); }
bool is_decimal(char32_t c) { return uc_decimal_value(c) >= 0; }
bool is_digit(char32_t c) { return uc_digit_value(c) >= 0; }
bool is_numeric(char32_t c) { return uc_numeric_value(c).denominator != 0; }
bool is_upper(char32_t c) { return uc_is_property_uppercase(c); }
bool is_lower(char32_t c) { return uc_is_property_lowercase(c); }
bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }
bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || in_category(c, UC_CATEGORY_MASK_Lt);
}

std::string upper(std::string_view text) { return map(text, &u8_toupper); }
std::string lower(std::string_view text) { return map(text, &u8_tolower); }
std::string title_case(std::string_view text) { return map(text, &u8_totitle); }
std::string case_fold(std::string_view text) { return map(text, &u8_casefold); }

namespace {

using Stripped = std::function<bool(std::string_view character)>;

bool starts_with_space(std::string_view character) {
  const Utf8Char c = first_char(character);
  return c.valid && is_space(c.code_point);
}

Stripped stripped_set(const std::optional<Text>& characters) {
  if (!characters) return starts_with_space;
  std::array<bool, 256> bytes{};
  std::unordered_set<std::string_view> longer;
  const std::string_view all = characters->bytes();
  each_char(all, [&](const Utf8Char& c, std::size_t at) {
    if (c.bytes == 1)
      bytes[static_cast<unsigned char>(all[at])] = true;
    else
      longer.insert(all.substr(at, c.bytes));
  });
  return [bytes, longer = std::move(longer)](std::string_view character) {
    return character.size() == 1 ? bytes[static_cast<unsigned char>(character[0])]
                                 : longer.contains(character);
  };
}

std::string reversed(std::string_view bytes) { return {bytes.rbegin(), bytes.rend()}; }

std::size_t skip_spaces(std::string_view text, std::size_t at) {
  while (at < text.size() && starts_with_space(text.substr(at)))
    at += first_char(text.substr(at)).bytes;
  return at;
}

std::size_t skip_spaces_back(std::string_view text, std::size_t at) {
  while (at > 0) {
    const std::size_t before = previous_char(text, at);
    if (!starts_with_space(text.substr(before, at - before))) break;
    at = before;
  }
  return at;
}

}  // namespace

std::size_t find(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* const found =
      memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

// Searching backwards as the library does it takes the product of both sizes.
std::size_t find_last(std::string_view text, std::string_view needle) {
  const std::size_t at = find(reversed(text), reversed(needle));
  return at == std::string_view::npos ? at : text.size() - at - needle.size();
}

Text strip(const Text& text, const std::optional<Text>& characters, Side side) {
  const Stripped in_set = stripped_set(characters);
  const std::string_view bytes = text.bytes();
  std::size_t begin = 0, end = bytes.size();
  while (side != Side::Right && begin < end) {
    const std::size_t n = first_char(bytes.substr(begin)).bytes;
    if (!in_set(bytes.substr(begin, n))) break;
    begin += n;
  }
  while (side != Side::Left && end > begin) {
    const std::size_t before = previous_char(bytes, end);
    if (!in_set(bytes.substr(before, end - before))) break;
    end = before;
  }
  return text.part(begin, end);
}

std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t most) {
  std::vector<Text> parts;
  std::size_t begin = 0;
  for (; most != 0; --most) {
    const std::size_t at = find(text.bytes(), separator, begin);
    if (at == std::string::npos) break;
    parts.push_back(text.part(begin, at));
    begin = at + separator.size();
  }
  parts.push_back(text.part(begin, text.size()));
  return parts;
}

std::vector<Text> split_from_right(const Text& text, std::string_view separator,
                                   std::int64_t most) {
  std::vector<Text> parts;
  const std::string backwards = reversed(text.bytes()), wanted = reversed(separator);
  std::size_t end = text.size();
  for (; most != 0; --most) {
    const std::size_t at = jinja::find(backwards, wanted, text.size() - end);
    if (at == std::string::npos) break;
    parts.push_back(text.part(text.size() - at, end));
    end = text.size() - at - separator.size();
  }
  parts.push_back(text.part(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_words(const Text& text, std::int64_t most) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> parts;
  for (std::size_t at = skip_spaces(bytes, 0); at < bytes.size();) {
    std::size_t end = at;
    while (end < bytes.size() && !starts_with_space(bytes.substr(end)))
      end += first_char(bytes.substr(end)).bytes;
    if (most == 0) end = bytes.size();  // as Python: white space at the far end stays
    parts.push_back(text.part(at, end));
    if (most-- == 0) break;
    at = skip_spaces(bytes, end);
  }
  return parts;
}

std::vector<Text> split_words_from_right(const Text& text, std::int64_t most) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> parts;
  for (std::size_t end = skip_spaces_back(bytes, bytes.size()); end > 0;) {
    std::size_t at = end;
    while (at > 0) {
      const std::size_t before = previous_char(bytes, at);
      if (starts_with_space(bytes.substr(before, at - before))) break;
      at = before;
    }
    if (most == 0) at = 0;
    parts.push_back(text.part(at, end));
    if (most-- == 0) break;
    end = skip_spaces_back(bytes, at);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char c = first_char(bytes.substr(at));
    std::size_t after = at + c.bytes;
    if (c.valid && is_line_break(c.code_point)) {
      if (c.code_point == '\r' && after < bytes.size() && bytes[after] == '\n') ++after;
      lines.push_back(text.part(begin, keep_ends ? after : at));
      begin = after;
    }
    at = after;
  }
  if (begin < bytes.size()) lines.push_back(text.part(begin, bytes.size()));
  return lines;
}

Text replace(const Text& text, std::string_view old, const Text& with, std::int64_t most) {
  const std::string_view bytes = text.bytes();
  Text out;
  std::size_t begin = 0;
  for (std::size_t at = find(bytes, old); most != 0 && at != std::string_view::npos; --most) {
    out.append(text, begin, at);
    out.append(with);
    begin = at + old.size();
    // Nothing to search for: it is found again behind the next character.
    const std::size_t next = !old.empty()        ? begin
                             : at < bytes.size() ? at + first_char(bytes.substr(at)).bytes
                                                 : bytes.size() + 1;
    at = find(bytes, old, next);
  }
  out.append(text, begin, bytes.size());
  return out;
}

Text map_runs(const Text& text, const std::function<std::string(std::string_view)>& change) {
  Text out;
  std::size_t begin = 0;
  for (const Text::Run& run : text.runs()) {
    out.append(change(std::string_view(text.bytes()).substr(begin, run.end - begin)), run.trusted);
    begin = run.end;
  }
  out.set_markup(text.is_markup());
  return out;
}

Text capitalize(const Text& text) {
  const std::size_t first = offset_of(text.bytes(), 1);
  Text out = map_runs(text.part(0, first), title_case);
  out.append(map_runs(text.part(first, text.size()), lower));
  return out;
}

Text title(const Text& text) {
  Text out;
  bool in_word = false;
  each_char(text.bytes(), [&](const Utf8Char& c, std::size_t at) {
    const std::string_view one = std::string_view(text.bytes()).substr(at, c.bytes);
    out.append(in_word ? lower(one) : title_case(one), text.trusted_at(at));
    in_word = is_cased(c.code_point);
  });
  return out;
}

Text swap_case(const Text& text) {
  Text out;
  each_char(text.bytes(), [&](const Utf8Char& c, std::size_t at) {
    const std::string_view one = std::string_view(text.bytes()).substr(at, c.bytes);
    out.append(is_upper(c.code_point)   ? lower(one)
               : is_lower(c.code_point) ? upper(one)
                                        : std::string(one),
               text.trusted_at(at));
  });
  return out;
}

Text escaped(const Text& text) {
  constexpr std::string_view kSpecial = "&<>'\"";
  constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  if (text.is_markup()) return text;
  Text out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.bytes().find_first_of(kSpecial, at), text.size());
    out.append(text, at, found);
    if (found == text.size()) break;
    out.append(kEntities[kSpecial.find(text.bytes()[found])], text.trusted_at(found));
    at = found + 1;
  }
  return out;
}

Text pad(const Text& text, std::size_t width, const Text& fill, Side text_side) {
  const std::size_t shown = length(text.bytes());
  if (width <= shown) return text;
  const std::size_t missing = width - shown;
  // Python gives the left side more of an odd number of fill characters if the width is odd.
  const std::size_t before = text_side == Side::Left    ? 0
                             : text_side == Side::Right ? missing
                                                        : missing / 2 + (missing & width & 1);
  Text out;
  for (std::size_t i = 0; i < before; ++i) out.append(fill);
  out.append(text);
  for (std::size_t i = before; i < missing; ++i) out.append(fill);
  out.set_markup(text.is_markup());
  return out;
}

}  // namespace cria::jinja
