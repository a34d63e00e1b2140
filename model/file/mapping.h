// The bytes of a file, read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cria {

enum class MapMode : std::uint8_t {
  Mmap,
  Read,  ///< the whole file into memory, in huge pages where they are granted
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
  /// Lets go of a part's pages; the bytes stay and are read again from the file if need be.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  Mapping() = default;

  std::byte* data_ = nullptr;  // null for an empty file
  std::size_t size_ = 0;
  bool copied_ = false;  // the pages are not the file's
};

}  // namespace cria
