#include "tools/terminal/output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "model/error.h"
#include "tools/terminal/process.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

constexpr std::size_t kPendingBytes = 1 << 16;

std::string pending_output;

/// Bytes that a writable pipe or terminal takes without blocking; files take all.
std::size_t bytes_at_once() {
  static const std::size_t bytes = [] {
    struct stat info = {};
    return fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode) ? kPendingBytes
                                                                     : std::size_t{PIPE_BUF};
  }();
  return bytes;
}

void write_to_stdout(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!wait_writable(STDOUT_FILENO)) throw Interrupted();
    const ssize_t n = write(STDOUT_FILENO, bytes.data(), std::min(bytes.size(), bytes_at_once()));
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EPIPE) {
      throw OutputClosed();
    } else if (errno != EINTR && errno != EAGAIN) {
      throw OutputError("stdout", std::string("cannot be written: ") + std::strerror(errno));
    }
  }
}

}  // namespace

void write_stdout(std::string_view bytes) {
  pending_output += bytes;
  if (pending_output.size() >= kPendingBytes) flush_stdout();
}

void refuse_terminal() {
  if (is_terminal(stdout))
    throw OutputError(
        "stdout", "refusing to write binary data to the terminal; redirect it to a file or a pipe");
}

void flush_stdout() {
  std::string bytes = std::exchange(pending_output, {});
  if (is_terminal(stdout)) {
    if (bytes.ends_with('\xC2')) {  // the first half of a character
      bytes.pop_back();
      pending_output = '\xC2';
    }
    bytes = without_del_and_c1(bytes);
  }
  write_to_stdout(bytes);
}

namespace {

bool is_written_directly(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error) &&
         !fs::is_directory(path, error);
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path) {
  if (path == "-") return;
  if (is_written_directly(path)) {
    stream_.reset(std::fopen(path.c_str(), "wb"));
    if (stream_ == nullptr) fail();
  } else {
    file_.emplace(path);
  }
}

void OutputFile::fail() const {
  if (errno == EPIPE) throw OutputClosed();
  throw Error(path_, std::string("cannot write: ") + std::strerror(errno));
}

void OutputFile::write(std::string_view bytes) {
  if (file_) return file_->write(bytes);
  if (stream_ == nullptr) return write_stdout(bytes);
  if (std::fwrite(bytes.data(), 1, bytes.size(), stream_.get()) != bytes.size()) fail();
}

void OutputFile::finish() {
  if (file_) return file_->finish();
  if (stream_ == nullptr) return flush_stdout();
  if (std::fflush(stream_.get()) != 0) fail();
}

}  // namespace cria::tools
