// One cursor over the bytes of a file: every read asks need() first, so nothing past the end is
// ever touched.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "model/error.h"

namespace cria {

static_assert(std::endian::native == std::endian::little,
              "GGUF values are read as they lie in the file");

class Cursor {
 public:
  /// file names the bytes in errors; both must outlive the cursor.
  Cursor(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  [[nodiscard]] std::size_t remaining() const noexcept { return bytes_.size() - position_; }
  [[nodiscard]] const std::byte* here() const noexcept { return bytes_.data() + position_; }

  /// Throws Error unless n more bytes are there. what: "the length of a string", say.
  void need(std::uint64_t n, std::string_view what) const {
    if (n > remaining()) truncated(n, what);
  }
  /// n bytes from here, passing over them.
  const std::byte* take(std::uint64_t n, std::string_view what) {
    need(n, what);
    const std::byte* const start = here();
    position_ += n;
    return start;
  }
  template <typename T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }
  /// What is read from here on, as errors call it: "key", "general.name"; nothing: bytes alone. The
  /// name must outlive the reading.
  void enter(std::string_view kind = {}, std::string_view name = {}) noexcept {
    kind_ = kind;
    name_ = name;
  }
  /// "key general.name, at byte 24": here, or where something began.
  [[nodiscard]] std::string at(std::size_t position) const {
    const std::string byte = "at byte " + std::to_string(position);
    return kind_.empty() ? byte : std::string(kind_) + " " + std::string(name_) + ", " + byte;
  }
  [[nodiscard]] std::string at() const { return at(position_); }

 private:
  [[noreturn]] void truncated(std::uint64_t n, std::string_view what) const {
    throw Error(file_,
                "file ends inside " + std::string(what) + ": expected " + std::to_string(n) +
                    " more bytes, got " + std::to_string(remaining()),
                at());
  }

  std::span<const std::byte> bytes_;
  std::string_view file_, kind_, name_;
  std::size_t position_ = 0;
};

}  // namespace cria
