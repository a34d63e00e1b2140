#include "tokenizer/jinja/values/text_ops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>

#include "model/file/utf8.h"
#include "tokenizer/jinja/values/unicode.h"

namespace cria::jinja {
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
  for (std::size_t at = 0, n = 0; at < all.size(); at += n) {
    n = first_char(all.substr(at)).bytes;
    if (n == 1)
      bytes[static_cast<unsigned char>(all[at])] = true;
    else
      longer.insert(all.substr(at, n));
  }
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

/// Calls visit(begin, end, code point or 0) for each character.
template <class Visit>
void each_char(std::string_view text, Visit&& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = first_char(text.substr(at));
    visit(at, at + c.bytes, c.valid ? c.code_point : char32_t{0});
    at += c.bytes;
  }
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
  each_char(text.bytes(), [&](std::size_t begin, std::size_t end, char32_t c) {
    const std::string_view one = std::string_view(text.bytes()).substr(begin, end - begin);
    out.append(in_word ? lower(one) : title_case(one), text.trusted_at(begin));
    in_word = is_cased(c);
  });
  return out;
}

Text swap_case(const Text& text) {
  Text out;
  each_char(text.bytes(), [&](std::size_t begin, std::size_t end, char32_t c) {
    const std::string_view one = std::string_view(text.bytes()).substr(begin, end - begin);
    out.append(is_upper(c)   ? lower(one)
               : is_lower(c) ? upper(one)
                             : std::string(one),
               text.trusted_at(begin));
  });
  return out;
}

Text pad(const Text& text, std::size_t width, const Text& fill, Side text_side) {
  const std::size_t shown = length(text.bytes());
  if (width <= shown) return text;
  const std::size_t missing = width - shown;
  // As Python: of an odd number of fill characters the left side gets more where the width is odd.
  const std::size_t before = text_side == Side::Left    ? 0
                             : text_side == Side::Right ? missing
                                                        : missing / 2 + (missing & width & 1);
  Text out;
  for (std::size_t i = 0; i < before; ++i) out.append(fill);
  out.append(text);
  for (std::size_t i = before; i < missing; ++i) out.append(fill);
  return out;
}

}  // namespace cria::jinja
