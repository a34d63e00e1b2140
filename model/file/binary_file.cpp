#include "model/file/binary_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "model/error.h"

namespace cria {
namespace {

// To open a pipe would wait for its other end.
const std::string& require_regular(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    throw Error(path, "cannot read: not a regular file");
  return path;
}

}  // namespace

BinaryReader::BinaryReader(const std::string& path)
    : path_(require_regular(path)), in_(path, std::ios::binary | std::ios::ate) {
  if (!in_) throw Error(path, std::string("cannot open: ") + std::strerror(errno));
  size_ = static_cast<std::uint64_t>(in_.tellg());
  in_.seekg(0);
}

void BinaryReader::read(void* to, std::size_t size) {
  in_.read(static_cast<char*>(to), static_cast<std::streamsize>(size));
  if (!in_) throw Error(path_, "cannot read: file ends too early");
  hash_.add(to, size);
}

void BinaryReader::check_checksum() {
  const std::uint64_t computed = std::exchange(hash_, Hash()).value();
  const auto stored = read_number<std::uint64_t>();
  hash_ = Hash();
  expect(stored == computed, "damaged: wrong checksum");
}

void BinaryReader::seek(std::uint64_t position) {
  in_.clear();
  in_.seekg(static_cast<std::streamoff>(position));
  hash_ = Hash();
}

void BinaryReader::expect(bool good, const std::string& what, const std::string& where) const {
  if (!good) throw Error(path_, what, where);
}

void BinaryReader::expect_equal(const std::string& what, std::uint64_t expected, std::uint64_t got,
                                const std::string& where) const {
  expect(expected == got,
         what + ": expected " + std::to_string(expected) + ", got " + std::to_string(got), where);
}

}  // namespace cria
