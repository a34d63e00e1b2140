#include "model/file/binary_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/statvfs.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "model/error.h"
#include "model/plural.h"

namespace cria {

OutputFile::OutputFile(std::string path, std::uint64_t bytes) : path_(std::move(path)) {
  find_target();
  piece_.reserve(kPiece);
  require_space(directory_, bytes, path_);
  file_ = open_temporary();
  if (file_ < 0) fail();
  // The disk keeps its space for the whole file from now on, if it knows how to.
  if (bytes != 0 && ::fallocate(file_, 0, 0, static_cast<off_t>(bytes)) != 0 && errno == ENOSPC)
    fail();
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::discard() noexcept {
  if (file_ < 0) return;
  ::close(std::exchange(file_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

// Discards at once: no destructor runs for what was not constructed.
void OutputFile::fail() {
  const int reason = errno;
  discard();
  throw Error(path_, std::string("cannot write: ") + std::strerror(reason));
}

// A link's file is replaced (or created), not the link. Devices and directories cannot be replaced.
void OutputFile::find_target() {
  namespace fs = std::filesystem;
  constexpr int kMaxLinks = 40;  // as the system follows
  std::error_code error;
  fs::path target = path_;
  for (int links = 0; links < kMaxLinks && fs::is_symlink(target, error); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    if (error) break;  // gone meanwhile
    target = target.parent_path() / next;
  }
  // Links of /proc do not say where they lead ("pipe:[…]", "… (deleted)").
  if (fs::exists(path_, error) && !fs::equivalent(path_, target, error)) target = path_;
  target_ = target.string();
  if (fs::is_directory(target_, error)) throw Error(path_, "cannot write: it is a directory");
  if (fs::exists(target_, error) && !fs::is_regular_file(target_, error))
    throw Error(path_, "cannot write: not a regular file");
  directory_ = fs::path(target_).parent_path().string();
  if (directory_.empty()) directory_ = ".";
}

// Opens a file without a name if the system supports it: nothing remains if the process ends.
int OutputFile::open_temporary() {
  if (::access("/proc/self/fd", X_OK) == 0) {
    const int fd = ::open(directory_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
  }
  temporary_ = target_ + ".part-" + std::to_string(::getpid());
  ::unlink(temporary_.c_str());  // left by a process that was killed and had our number
  return ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

void OutputFile::write(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  while (size > 0) {
    const std::size_t n = std::min(size, kPiece - piece_.size());
    piece_.insert(piece_.end(), bytes, bytes + n);
    if (piece_.size() == kPiece) write_out();
    bytes += n;
    size -= n;
  }
}

void OutputFile::write_out() {
  for (std::size_t done = 0; done < piece_.size();) {
    const ssize_t n = ::write(file_, piece_.data() + done, piece_.size() - done);
    if (n < 0 && errno != EINTR) fail();
    done += n < 0 ? 0 : static_cast<std::size_t>(n);
  }
  piece_.clear();
}

void OutputFile::complete() {
  write_out();
  piece_ = std::vector<std::byte>();  // many files may wait for others
  if (::fsync(file_) != 0) fail();
}

void OutputFile::replace() {
  if (temporary_.empty()) give_name();
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  ::close(std::exchange(file_, -1));
}

// A link cannot replace a file, so the unnamed file first gets a name in the same directory.
void OutputFile::give_name() {
  const std::string name = target_ + ".part-" + std::to_string(::getpid());
  const std::string open_file = "/proc/self/fd/" + std::to_string(file_);
  ::unlink(name.c_str());
  if (::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) fail();
  temporary_ = name;
}

void require_space(const std::string& directory, std::uint64_t bytes, const std::string& path) {
  struct statvfs disk = {};
  if (::statvfs(directory.c_str(), &disk) != 0 || disk.f_blocks == 0)
    return;  // not known: writing will tell
  const std::uint64_t available = std::uint64_t{disk.f_bavail} * disk.f_frsize;
  if (bytes > available)
    throw Error(path, "not enough space on the disk: expected " + counted(bytes, "byte") +
                          ", got " + std::to_string(available));
}

void require_other_file(const std::string& input, const std::string& target) {
  std::error_code error;  // a target that is not there yet is another file
  if (std::filesystem::equivalent(input, target, error))
    throw Error(target, "cannot write: it is the input itself (" + input + ")");
}

void require_writable(const std::string& target) { const OutputFile nothing(target); }

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
