// Binary files of the project's own formats: written whole or not at all, read with every length
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

#include "model/file/hash.h"
#include "model/file/output_file.h"

namespace cria {

/// An OutputFile that sums up what it writes.
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

  /// Goes on at that byte, with a new checksum.
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
