#include "tests/tools/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace cria::test {
namespace {

[[noreturn]] void become(std::vector<std::string> arguments, std::vector<std::string> environment) {
  std::vector<char*> argv;
  arguments.insert(arguments.begin(), CRIA_PROGRAM);
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  for (std::string& entry : environment) putenv(entry.data());
  execv(CRIA_PROGRAM, argv.data());
  _exit(127);
}

int wait_code(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result cria(std::vector<std::string> arguments, std::string_view input,
            std::vector<std::string> environment) {
  const TempDirectory directory;  // files, not pipes: nothing can block
  const std::string in = directory.write("in", input), out = directory.path("out"),
                    err = directory.path("err");
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    become(std::move(arguments), std::move(environment));
  }
  Result result;
  result.code = wait_code(pid);
  result.out = read_file(out);
  result.err = read_file(err);
  return result;
}

Child::Child(Kind kind, std::vector<std::string> arguments, std::vector<std::string> environment) {
  if (kind == Kind::Terminal) {
    winsize size = {.ws_row = 40, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
    pid_ = forkpty(&descriptor_, nullptr, nullptr, &size);
    if (pid_ == 0) become(std::move(arguments), std::move(environment));
    return;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  pid_ = fork();
  if (pid_ == 0) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
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

TempDirectory::TempDirectory()
    : path_((std::filesystem::temp_directory_path() / "cria-test-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp");
}
TempDirectory::~TempDirectory() { std::filesystem::remove_all(path_); }
std::string TempDirectory::path(std::string_view name) const { return path_ + "/" + std::string(name); }
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
