// The one exception of the library: bad data or a failed run. Programmer errors are assertions.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cria {

/// Text from a file as it may stand in a message: one line, no control characters, not endless.
inline std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 2000;
  std::string out(text.substr(0, kLongest));
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  std::replace_if(out.begin(), out.end(), is_control, '?');
  if (text.size() > kLongest) out += "…";
  return out;
}

/// Formats a number for a message, as the shortest decimal that reads back equal. Any NaN is "nan".
inline std::string number_text(float value) {
  if (std::isnan(value)) return "nan";
  char text[32];
  return {text, std::to_chars(std::begin(text), std::end(text), value).ptr};
}

/// what() reads "FILE: what is wrong: expected X, got Y (at byte N | key K | tensor T)"; the
/// program prints it after "cria: error: ".
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}  ///< the whole line
  /// file: the file at fault ("" if none); where: "at byte 12", "key general.alignment", "tensor
  /// blk.0.attn_q.weight" or "".
  Error(std::string_view file, std::string_view message, std::string_view where = {})
      : std::runtime_error((file.empty() ? std::string() : printable(file) + ": ") +
                           printable(message) +
                           (where.empty() ? std::string() : " (" + printable(where) + ")")) {}
};

}  // namespace cria
