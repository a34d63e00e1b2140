// Bytes consumed as numbers and texts, for targets whose input is not a file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace cria::fuzz {

/// Yields zeros after the last byte.
class ByteSource {
 public:
  explicit ByteSource(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value{};
    bytes_.remove_prefix(bytes_.copy(reinterpret_cast<char*>(&value), sizeof value));
    return value;
  }
  /// Returns a number from low to high, inclusive.
  std::uint32_t between(std::uint32_t low, std::uint32_t high) {
    const std::uint32_t range = high - low + 1;
    return low + (range <= 256 ? number<std::uint8_t>() : number<std::uint32_t>()) % range;
  }
  bool flag() { return number<std::uint8_t>() % 2 == 1; }
  /// Returns a string of up to `longest` bytes; the next byte is its length.
  std::string text(std::uint32_t longest) {
    const std::size_t wanted = between(0, longest);  // takes a byte, so it comes before size()
    const std::size_t n = std::min(wanted, bytes_.size());
    std::string out(bytes_.substr(0, n));
    bytes_.remove_prefix(n);
    return out;
  }
  [[nodiscard]] std::string_view rest() const { return bytes_; }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

}  // namespace cria::fuzz
