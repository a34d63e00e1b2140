// A checksum of what is written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cria {

/// FNV-1a over words of eight bytes (the last one padded with zeros): finds damage, resists nobody.
class Hash {
 public:
  void add(const void* data, std::size_t size) {
    const char* bytes = static_cast<const char*>(data);
    for (; size > 0; bytes += kWord, size -= std::min(size, kWord)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, std::min(size, kWord));
      value_ = (value_ ^ word) * 0x100000001B3;
      value_ ^= value_ >> 32;  // high bits would otherwise never reach low ones
    }
  }
  template <class T>
  void add_number(T number) {
    add(&number, sizeof number);
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  static constexpr std::size_t kWord = 8;
  std::uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace cria
