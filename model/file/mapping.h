// Describes files that are not GGUF.
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

inline constexpr char kGgufMagic[4] = {'G', 'G', 'U', 'F'};

/// For error texts, from the first bytes: "an HTML page (a failed download?)", or the bytes
/// themselves in hexadecimal.
std::string describe_magic(std::span<const std::byte> bytes);

// The bytes of a file, read-only.

enum class MapMode : std::uint8_t {
  Mmap,
  Read,  ///< the whole file into memory, in huge pages if granted
};

/// A regular file mapped or read into memory; unmapped by the destructor. Movable.
class Mapping {
 public:
  /// Throws Error that names the path and why it cannot be had (missing, directory, pipe,
  /// unreadable, …). expected: what the file should be, for the message.
  Mapping(const std::string& path, MapMode mode, std::string_view expected = "a GGUF file");
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  /// Keeps the bytes from being paged out; false where the system refuses (errno tells why).
  [[nodiscard]] bool lock() const noexcept;
  /// Asks the system to read the file ahead; returns at once.
  void prefetch() const noexcept { prefetch(bytes()); }
  void prefetch(std::span<const std::byte> part) const noexcept;
  /// Releases the pages of a part; the file's bytes are read again when needed.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  Mapping() = default;

  std::byte* data_ = nullptr;  // null for an empty file
  std::size_t size_ = 0;
  bool copied_ = false;  // the pages are not the file's
};

// One cursor over the bytes of a file: every read asks need() first, so nothing past the end is
// ever touched.

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
  /// Names what is read next in errors: "key", "general.name"; without a name, errors give the byte
  /// only. The name must outlive the reading.
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
