#include "engine/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "model/error.h"

namespace cria {
namespace {

// To open a pipe would wait for its other end, and a device is not to be replaced by a file.
const std::string& require_regular(const std::string& path, std::string_view what) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    throw Error(path, std::string(what) + ": not a regular file");
  return path;
}

}  // namespace

FileWriter::FileWriter(const std::string& path)
    : target_(require_regular(path, "cannot write")),
      path_(path + "." + std::to_string(getpid()) + ".tmp"),
      out_(path_, std::ios::binary) {
  if (!out_) fail();
}

FileWriter::~FileWriter() {
  if (!path_.empty()) std::remove(path_.c_str());
}

void FileWriter::fail() const { throw Error(target_, std::string("cannot write: ") + std::strerror(errno)); }

void FileWriter::write(const void* data, std::size_t size) {
  hash_.add(data, size);
  if (!out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(size))) fail();
}

void FileWriter::write_checksum() {
  const std::uint64_t sum = hash_.value();
  write_number(sum);
  hash_ = Hash();
}

void FileWriter::finish() {
  out_.close();
  if (!out_ || std::rename(path_.c_str(), target_.c_str()) != 0) fail();
  path_.clear();
}

FileReader::FileReader(const std::string& path)
    : path_(require_regular(path, "cannot read")), in_(path, std::ios::binary | std::ios::ate) {
  if (!in_) throw Error(path, std::string("cannot open: ") + std::strerror(errno));
  size_ = static_cast<std::uint64_t>(in_.tellg());
  in_.seekg(0);
}

void FileReader::read(void* to, std::size_t size) {
  in_.read(static_cast<char*>(to), static_cast<std::streamsize>(size));
  if (!in_) throw Error(path_, "cannot read: file ends too early");
  hash_.add(to, size);
}

void FileReader::check_checksum() {
  const std::uint64_t computed = std::exchange(hash_, Hash()).value();
  const auto stored = read_number<std::uint64_t>();
  hash_ = Hash();
  expect(stored == computed, "damaged: wrong checksum");
}

void FileReader::seek(std::uint64_t position) {
  in_.clear();
  in_.seekg(static_cast<std::streamoff>(position));
  hash_ = Hash();
}

void FileReader::expect(bool good, const std::string& what, const std::string& where) const {
  if (!good) throw Error(path_, what, where);
}

void FileReader::expect_equal(const std::string& what, std::uint64_t expected, std::uint64_t got,
                              const std::string& where) const {
  expect(expected == got, what + ": expected " + std::to_string(expected) + ", got " + std::to_string(got),
         where);
}

}  // namespace cria
