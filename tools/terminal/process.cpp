#include "tools/terminal/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>

namespace cria::tools {

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

std::atomic<bool> interrupt_seen{false}, continue_seen{false};
std::atomic<int> seen_signal{SIGINT};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "the signal handler sets them");
int wake_up[2] = {-1, -1};  // a pipe: the handler writes, waiting threads read

void wake_who_waits() {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(wake_up[1], "", 1);
  errno = saved;
}

extern "C" void on_interrupt(int number) {
  if (number != SIGINT) seen_signal = number;
  if (interrupt_seen.exchange(true)) exit_now(interrupted_exit());
  wake_who_waits();
}

extern "C" void on_continue_signal(int) {
  continue_seen = true;
  wake_who_waits();
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // files are read and written as if nothing happened
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

/// True if the descriptor is ready; false after a signal or a timeout.
bool poll_once(int descriptor, short events, int milliseconds) {
  pollfd waiting[2] = {{descriptor, events, 0}, {wake_up[0], POLLIN, 0}};
  const int ready = poll(waiting, 2, milliseconds);
  if (ready < 0) return errno != EINTR;  // let the read or write tell what is wrong
  char drained[16];
  while (waiting[1].revents != 0 && read(wake_up[0], drained, sizeof drained) > 0) continue;
  return waiting[0].revents != 0;
}

}  // namespace

std::atomic<bool>& catch_interrupts() {
  if (wake_up[0] >= 0 || pipe2(wake_up, O_CLOEXEC | O_NONBLOCK) != 0) return interrupt_seen;
  for (const int number : kSignals) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    if (number == SIGHUP && action.sa_handler == SIG_IGN) continue;  // nohup
    handle(number, on_interrupt);
  }
  handle(SIGCONT, on_continue_signal);
  return interrupt_seen;
}

int interrupted_exit() { return 128 + seen_signal; }
bool terminated() { return seen_signal != SIGINT; }

bool wait_readable(int descriptor, const std::function<void()>& on_continue) {
  while (!interrupt_seen) {
    const bool ready = poll_once(descriptor, POLLIN, -1);
    if (on_continue && continue_seen.exchange(false)) on_continue();
    if (ready && !interrupt_seen) return true;
  }
  return false;
}

bool wait_writable(int descriptor) {
  constexpr int kLastWords = 1000;  // ms for the reader to take the last output
  for (;;) {
    const bool last = interrupt_seen;
    if (poll_once(descriptor, POLLOUT, last ? kLastWords : -1)) return true;
    if (last) return false;
  }
}

void stop_process() {
  signal(SIGTSTP, SIG_IGN);  // this process stops last, when it is ready to
  kill(0, SIGTSTP);
  signal(SIGTSTP, SIG_DFL);
  raise(SIGTSTP);
  continue_seen = false;  // the caller knows
}

namespace {

termios found_terminal;
bool has_terminal = false;
std::atomic<const char*> last_words{""};

// Safe in a signal handler: no allocation, no stdio.
void write_text(int descriptor, const char* text) {
  for (std::size_t left = std::strlen(text); left > 0;) {
    const ssize_t n = write(descriptor, text, left);
    if (n <= 0) return;
    text += n;
    left -= static_cast<std::size_t>(n);
  }
}

void error_text(const char* text) { write_text(STDERR_FILENO, text); }

void error_number(std::uint64_t number) {
  char digits[21] = {};
  char* at = digits + sizeof digits - 1;
  do *--at = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  error_text(at);
}

/// Lines of /proc/self/maps, in memory that is there before anything fails.
class MapLines {
 public:
  MapLines() : descriptor_(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  /// The next line without its newline, cut if too long; null at the end.
  char* next() {
    std::size_t n = 0;
    for (char c = 0; get(c);) {
      if (c == '\n') return line_[n] = '\0', line_;
      if (n + 1 < sizeof line_) line_[n++] = c;
    }
    return nullptr;
  }

 private:
  bool get(char& c) {
    if (at_ == end_) {
      const ssize_t n = descriptor_ < 0 ? -1 : read(descriptor_, buffer_, sizeof buffer_);
      if (n <= 0) return false;
      at_ = 0;
      end_ = static_cast<std::size_t>(n);
    }
    c = buffer_[at_++];
    return true;
  }

  static char line_[PATH_MAX + 128], buffer_[4096];
  int descriptor_;
  std::size_t at_ = 0, end_ = 0;
};
char MapLines::line_[], MapLines::buffer_[];

std::uint64_t hexadecimal(const char*& text) {
  std::uint64_t value = 0;
  for (;; ++text) {
    const char c = *text;
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return value;
    value = value << 4 | static_cast<unsigned>(digit);
  }
}

struct MappedFile {
  char* path = nullptr;  ///< null: the address is in no file
  std::uint64_t offset = 0;
};

/// The file whose mapping holds the address. A line: "begin-end rwxp offset device inode   path"
/// (proc(5)).
MappedFile find_mapped_file(std::uint64_t address) {
  MapLines lines;
  while (char* const line = lines.next()) {
    const char* at = line;
    const std::uint64_t begin = hexadecimal(at);
    const std::uint64_t end = hexadecimal(++at);
    if (address < begin || address >= end) continue;
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return {};
    const std::uint64_t offset = hexadecimal(++at);
    char* const path = std::strchr(line, '/');
    if (path == nullptr) return {};
    for (char* c = path; *c != '\0'; ++c) {
      if (static_cast<unsigned char>(*c) < 0x20 || *c == 0x7F) *c = '?';
    }
    return {path, offset + (address - begin)};
  }
  return {};
}

extern "C" void on_bus_error(int number, siginfo_t* info, void*) {
  static std::atomic<bool> entered{false};
  if (entered.exchange(true)) {
    for (;;) pause();  // another thread is about to end the process
  }
  const MappedFile file = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR
                              ? find_mapped_file(reinterpret_cast<std::uintptr_t>(info->si_addr))
                              : MappedFile{};
  if (file.path == nullptr) {  // not a mapped model: default action
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  error_text("cria: error: ");
  error_text(file.path);
  error_text(": the file shrank, or its disk failed, while it was in use (at byte ");
  error_number(file.offset);
  error_text(")\n");
  exit_now(1);
}

[[noreturn]] void on_terminate() {
  const std::exception_ptr thrown = std::current_exception();
  if (!thrown) std::abort();
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    error_text("cria: error: out of memory\n");
  } catch (const std::exception& error) {
    error_text("cria: error: ");
    error_text(error.what());
    error_text("\n");
  } catch (...) {
    std::abort();
  }
  exit_now(1);
}

// stdin cannot be read, stdout and stderr cannot be written: their descriptors are of the other
// kind.
void open_standard_descriptors() {
  for (const int wanted : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(wanted, F_GETFD) >= 0) continue;
    (void)open("/dev/null",
               wanted == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // the lowest number that is free
  }
}

void handle_with_info(int number, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

void prepare_process() {
  open_standard_descriptors();
  has_terminal = tcgetattr(STDIN_FILENO, &found_terminal) == 0;
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  handle_with_info(SIGBUS, on_bus_error);
  std::set_terminate(on_terminate);
}

void allow_descriptors(std::size_t wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
}

void set_last_words(const char* sequence) { last_words = sequence; }

void exit_now(int code) {
  // In the background this would stop the process; another process has the terminal then.
  if (has_terminal && tcgetpgrp(STDIN_FILENO) == getpgrp()) {
    write_text(STDOUT_FILENO, last_words);
    tcsetattr(STDIN_FILENO, TCSANOW, &found_terminal);
  }
  _exit(code);
}

}  // namespace cria::tools
