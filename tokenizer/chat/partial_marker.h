// Ends of a text that is still growing: white space, partial markers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace cria {

inline constexpr std::string_view kTextSpace = " \t\r\n";

inline std::size_t spaces_at_start(std::string_view text) {
  return std::min(text.find_first_not_of(kTextSpace), text.size());
}

inline std::size_t spaces_at_end(std::string_view text) {
  const std::size_t last = text.find_last_not_of(kTextSpace);
  return text.size() - (last == std::string_view::npos ? 0 : last + 1);
}

inline std::string_view without_spaces(std::string_view text) {
  text.remove_prefix(spaces_at_start(text));
  text.remove_suffix(spaces_at_end(text));
  return text;
}

/// Returns the number of bytes at the end of the text that may start the marker.
inline std::size_t begun(std::string_view text, std::string_view marker) {
  if (marker.empty()) return 0;
  std::size_t n = std::min(marker.size() - 1, text.size());
  while (n > 0 && !text.ends_with(marker.substr(0, n))) --n;
  return n;
}

}  // namespace cria
