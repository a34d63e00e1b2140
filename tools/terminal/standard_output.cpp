#include "tools/terminal/standard_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <utility>

#include "tools/terminal/interrupt.h"

namespace cria::tools {
namespace {

constexpr std::size_t kPendingBytes = 1 << 16;

std::string pending_output;

/// So many bytes a pipe or terminal that can be written takes without blocking; files take all.
std::size_t bytes_at_once() {
  static const std::size_t bytes = [] {
    struct stat info = {};
    return fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode) ? kPendingBytes : std::size_t{PIPE_BUF};
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

void flush_stdout() { write_to_stdout(std::exchange(pending_output, {})); }

}  // namespace cria::tools
