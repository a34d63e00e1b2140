// A checksum of what is written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria {

/// FNV-1a over words of eight bytes (the last one padded with zeros): detects damage, not attacks.
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

// A file that is either complete or not there.

/// The bytes go to an unnamed file in the target's directory ("TARGET.part-PID" if the system does
/// not support unnamed files), which finish() puts in the target's place. Without finish() the
/// destructor deletes it and the target stays unchanged. If the target is a symbolic link, its file
/// is replaced.
///  The bytes are written in pieces of kPiece at multiples of kPiece. Linux keeps each piece as a
///  unit in its page cache, so mapping the file soon after gives huge pages (measured:
///  bench/processors/zen5.md).
class OutputFile {
 public:
  static constexpr std::size_t kPiece = std::size_t{2} << 20;  ///< a huge page

  /// bytes: size of the whole file, if known, which is reserved on the disk. Throws Error if the
  /// disk lacks the space or the target cannot be replaced (a directory, a device, a pipe).
  explicit OutputFile(std::string path, std::uint64_t bytes = 0);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throw Error if the disk refuses.
  void write(const void* data, std::size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// The bytes are on the disk when it returns; the target is as it was. Nothing may be written
  /// after it.
  void complete();
  /// After complete(): puts the file in the target's place.
  void replace();
  void finish() { complete(), replace(); }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  void find_target();
  int open_temporary();
  void write_out();
  void give_name();
  void discard() noexcept;
  [[noreturn]] void fail();

  std::string path_, target_, directory_;
  std::string temporary_;  // "" while the file has no name
  int file_ = -1;
  std::vector<std::byte> piece_;  // not written yet: less than kPiece
};

/// Throws Error if the target is this file, by whatever name or link: what was read is not to be
/// replaced.
void require_other_file(const std::string& input, const std::string& target);
/// Throws Error about `path` if the disk of an existing directory lacks the space. Passes if the
/// free space is unknown.
void require_space(const std::string& directory, std::uint64_t bytes, const std::string& path);
/// Throws Error as an OutputFile of this path: before hours of work on what it is for.
void require_writable(const std::string& target);

// Binary files of the project's own formats: written whole or not at all, read with every length
// checked.

/// An OutputFile with checksums.
class BinaryWriter {
 public:
  /// bytes: as OutputFile's.
  explicit BinaryWriter(std::string path, std::uint64_t bytes = 0)
      : file_(std::move(path), bytes) {}

  /// Bytes, which count for the checksum.
  void write(const void* data, std::size_t size) {
    hash_.add(data, size);
    file_.write(data, size);
  }
  template <class T>
  void write_number(T number) {
    write(&number, sizeof number);
  }
  /// Writes the checksum of all bytes since the last one, and begins anew.
  void write_checksum() {
    write_number(hash_.value());
    hash_ = Hash();
  }
  void finish() { file_.finish(); }

 private:
  OutputFile file_;
  Hash hash_;
};

/// Throws Error that names the file for what is not there or does not fit.
class BinaryReader {
 public:
  explicit BinaryReader(const std::string& path);
  void read(void* to, std::size_t size);
  template <class T>
  T read_number() {
    T number{};
    read(&number, sizeof number);
    return number;
  }
  /// Reads a checksum and compares it with that of all bytes read since the last one.
  void check_checksum();

  /// Continues at that byte with a new checksum.
  void seek(std::uint64_t position);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Throws Error "PATH: what (where)" unless good.
  void expect(bool good, const std::string& what, const std::string& where = {}) const;
  /// The same for two numbers: "what: expected X, got Y".
  void expect_equal(const std::string& what, std::uint64_t expected, std::uint64_t got,
                    const std::string& where = {}) const;

 private:
  std::string path_;
  std::ifstream in_;
  std::uint64_t size_ = 0;
  Hash hash_;
};

}  // namespace cria
