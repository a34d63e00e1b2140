#include "tests/tools/process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/tools/paths.h"

namespace cria::test {
namespace {

[[noreturn]] void become(std::vector<std::string> arguments, std::vector<std::string> environment,
                         const char* program = program_path()) {
  std::vector<char*> argv;
  arguments.insert(arguments.begin(), program);
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  for (std::string& entry : environment) putenv(entry.data());
  execvp(program, argv.data());
  _exit(127);
}

int wait_code(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void limit(decltype(RLIMIT_AS) what, std::size_t bytes) {
  const rlimit value = {bytes, bytes};
  if (bytes != 0) setrlimit(what, &value);
}

/// A pipe into which a child of its own writes in pieces; its read end.
int piecemeal_pipe(std::string_view bytes) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  if (fork() == 0) {
    for (std::size_t n = 0; !bytes.empty(); bytes.remove_prefix(n)) {
      n = std::min(bytes.size(), 1 + bytes.size() % 7);
      if (write(ends[1], bytes.data(), n) < 0) break;
      sched_yield();
    }
    _exit(0);
  }
  close(ends[1]);
  return ends[0];
}

int no_reader() {
  int ends[2];
  if (pipe(ends) != 0) _exit(126);
  close(ends[0]);
  return ends[1];
}

void connect_output(Surroundings::Output output, const std::string& file) {
  using Output = Surroundings::Output;
  if (output == Output::Closed) {
    close(STDOUT_FILENO);
    return;
  }
  dup2(output == Output::File   ? open(file.c_str(), O_WRONLY | O_CREAT, 0600)
       : output == Output::Full ? open("/dev/full", O_WRONLY)
                                : no_reader(),
       STDOUT_FILENO);
}

}  // namespace

Result cria(std::vector<std::string> arguments, std::string_view input,
            std::vector<std::string> environment) {
  return cria_in({.input = input, .environment = std::move(environment)}, std::move(arguments));
}

Result cria_in(const Surroundings& around, std::vector<std::string> arguments) {
  const TempDirectory directory;  // files, not pipes: nothing can block
  const std::string in = directory.write("in", around.input), out = directory.path("out"),
                    err = directory.path("err");
  const int pieces = around.piecemeal ? piecemeal_pipe(around.input) : -1;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(pieces >= 0 ? pieces : open(in.c_str(), O_RDONLY), STDIN_FILENO);
    if (around.input_closed) close(STDIN_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    connect_output(around.output, out);
    limit(RLIMIT_AS, around.address_space);
    limit(RLIMIT_FSIZE, around.file_size);
    if (around.obeys_permissions) {  // not granted: these were not the superuser's anyway
      prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
      prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
    }
    if (around.in_child) around.in_child();
    become(std::move(arguments), around.environment);
  }
  if (pieces >= 0) close(pieces);
  Result result;
  result.code = wait_code(pid);
  result.out = read_file(out);
  result.err = read_file(err);
  return result;
}

Child::Child(Kind kind, std::vector<std::string> arguments, std::vector<std::string> environment,
             const std::string& errors) {
  if (kind != Kind::Pipe) {
    winsize size = {.ws_row = 40, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
    pid_ = forkpty(&descriptor_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      setenv("TERM", "xterm", 1);  // wherever the tests run
      become(std::move(arguments), std::move(environment),
             kind == Kind::Shell ? "bash" : program_path());
    }
    return;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  pid_ = fork();
  if (pid_ == 0) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    if (!errors.empty()) dup2(open(errors.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    become(std::move(arguments), std::move(environment));
  }
  close(ends[1]);
  descriptor_ = ends[0];
}

Child::~Child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    wait_code(pid_);
  }
  close(descriptor_);
}

void Child::send(std::string_view bytes) const {
  if (write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("the program does not read");
}

void Child::signal(int number) const { kill(pid_, number); }

bool Child::read_more() {
  pollfd waiting = {.fd = descriptor_, .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, 60'000) <= 0) {
    kill(pid_, SIGKILL);  // it hangs: let the test fail, not wait
    return false;
  }
  char buffer[4096];
  const ssize_t n = read(descriptor_, buffer, sizeof buffer);
  if (n > 0) output_.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

bool Child::wait_for(std::string_view text) {
  for (;;) {
    if (const std::size_t at = output_.find(text, consumed_); at != std::string::npos) {
      consumed_ = at + text.size();
      return true;
    }
    if (!read_more()) return false;
  }
}

int Child::exit_code() {
  while (read_more()) continue;
  const int code = wait_code(pid_);
  pid_ = -1;
  return code;
}

void Child::resize(unsigned short rows, unsigned short columns) const {
  const winsize size = {.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  ioctl(descriptor_, TIOCSWINSZ, &size);
}

void Child::cook_terminal() const {
  termios mode = {};
  if (tcgetattr(descriptor_, &mode) != 0) throw std::runtime_error("no terminal");
  mode.c_lflag |= ICANON | ECHO | ISIG;
  tcsetattr(descriptor_, TCSANOW, &mode);
}

bool Child::terminal_is_cooked() const {
  termios mode = {};
  if (tcgetattr(descriptor_, &mode) != 0) throw std::runtime_error("no terminal");
  return (mode.c_lflag & ICANON) != 0 && (mode.c_lflag & ECHO) != 0;
}

TempDirectory::TempDirectory()
    : path_((std::filesystem::temp_directory_path() / "cria-test-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp");
}
TempDirectory::~TempDirectory() { std::filesystem::remove_all(path_); }
std::string TempDirectory::path(std::string_view name) const {
  return path_ + "/" + std::string(name);
}
std::string TempDirectory::write(std::string_view name, std::string_view bytes) const {
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t count_lines(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace cria::test
