// Binary files of the engine's own formats: written whole or not at all, read with every length checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "engine/fingerprint.h"

namespace cria {

/// Written beside its target and renamed by finish(); without that the target stays as it was. Throws Error.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  /// Bytes, which count for checksum().
  void write(const void* data, std::size_t size);
  template <class T>
  void write_number(T number) {
    write(&number, sizeof number);
  }
  /// Writes the checksum of all bytes since the last one, and begins anew.
  void write_checksum();
  void finish();

 private:
  [[noreturn]] void fail() const;
  std::string target_, path_;
  std::ofstream out_;
  Hash hash_;
};

/// Throws Error that names the file for what is not there or does not fit.
class FileReader {
 public:
  explicit FileReader(const std::string& path);
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
