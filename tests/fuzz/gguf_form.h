// A GGUF file as a structure that may have any error: read leniently, changed, written again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/formats/dtype.h"
#include "model/gguf/gguf.h"

namespace cria::fuzz {

/// Returns the bytes of a number, little-endian.
template <class T>
std::string bytes_of(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

struct GgufForm {
  struct Key {
    std::string name;
    GgufType type = GgufType::U8;
    std::string payload;  ///< bytes after the type
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::uint32_t type = 0;
    std::uint64_t offset = 0;
  };
  /// The place of a number in bytes(): a count, a length, a type, an offset.
  struct Number {
    std::size_t at, size;
  };

  std::uint32_t version = 3;
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  std::string data;
  std::size_t alignment = 32;

  /// Returns nullopt if the bytes are not a GGUF file.
  static std::optional<GgufForm> parse(std::string_view bytes);
  /// Returns the file. numbers: the places of the header's numbers.
  [[nodiscard]] std::string bytes(std::vector<Number>* numbers = nullptr) const;

  /// Payloads. A length has 4 bytes in version 1, else 8.
  [[nodiscard]] std::string count(std::uint64_t n) const {
    return version == 1 ? bytes_of(static_cast<std::uint32_t>(n)) : bytes_of(n);
  }
  [[nodiscard]] std::string text(std::string_view value) const {
    return count(value.size()) + std::string(value);
  }
  template <class T>
  [[nodiscard]] std::string array(GgufType type, const std::vector<T>& values) const {
    std::string out = bytes_of(type) + count(values.size());
    for (const T& value : values) {
      if constexpr (std::is_convertible_v<T, std::string_view>)
        out += text(value);
      else
        out += bytes_of(value);
    }
    return out;
  }

  void set(std::string_view name, GgufType type, std::string payload);
  void set_u32(std::string_view name, std::uint32_t value) {
    set(name, GgufType::U32, bytes_of(value));
  }
  void set_f32(std::string_view name, float value) { set(name, GgufType::F32, bytes_of(value)); }
  void set_text(std::string_view name, std::string_view value) {
    set(name, GgufType::String, text(value));
  }
  [[nodiscard]] Key* find(std::string_view name);

  void add_tensor(std::string name, DType type, std::vector<std::uint64_t> shape) {
    tensors.push_back({std::move(name), std::move(shape), static_cast<std::uint32_t>(type), 0});
  }
  /// Places all tensors one after the other and extends the data accordingly, up to max_bytes (else
  /// unchanged). New data repeat the old.
  void place_tensors(std::size_t max_bytes = 1 << 20);
};

}  // namespace cria::fuzz
