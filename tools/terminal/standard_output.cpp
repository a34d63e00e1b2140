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
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

constexpr std::size_t kPendingBytes = 1 << 16;

std::string pending_output;

/// So many bytes a pipe or terminal that can be written takes without blocking; files take all.
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
    throw OutputError("stdout",
                      "is a terminal, and raw values are no text: expected a file or a pipe");
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

}  // namespace cria::tools
