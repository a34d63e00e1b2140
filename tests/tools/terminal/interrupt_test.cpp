// SIGINT and SIGTERM during commands that write files: no partial file under the final name, no
// other file left behind. Stderr is a pipe that holds only the first bytes. So the program is still
// at work, or blocked, when the signal comes, on any machine.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

/// A named pipe of small capacity, which is not read before open_wide().
class NarrowPipe {
 public:
  NarrowPipe(const TempDirectory& directory, std::size_t room) : path_(directory.path("stderr")) {
    if (mkfifo(path_.c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
    fd_ = open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    const auto bytes = static_cast<std::size_t>(fcntl(fd_, F_SETPIPE_SZ, 4096));
    const std::string filler(bytes - room, '.');
    filled_ = filler.size();
    if (write(fd_, filler.data(), filler.size()) != static_cast<ssize_t>(filler.size()))
      throw std::runtime_error("a pipe that is too small");
  }
  NarrowPipe(const NarrowPipe&) = delete;
  NarrowPipe& operator=(const NarrowPipe&) = delete;
  ~NarrowPipe() {
    close(fd_);
    unlink(path_.c_str());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Waits until `bytes` bytes were written; false after a minute.
  [[nodiscard]] bool wait_for(std::size_t bytes) const {
    for (int i = 0; i < 60'000; ++i) {
      int there = 0;
      ioctl(fd_, FIONREAD, &there);
      if (static_cast<std::size_t>(there) >= filled_ + bytes) return true;
      usleep(1000);
    }
    return false;
  }
  /// Takes all, and lets the rest come.
  void open_wide() const {
    char bytes[4096];
    while (read(fd_, bytes, sizeof bytes) > 0) continue;
    fcntl(fd_, F_SETPIPE_SZ, 1 << 20);
  }

 private:
  std::string path_;
  int fd_ = -1;
  std::size_t filled_ = 0;
};

std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename());
  return names;
}

/// Runs a command and sends a signal once it has written `words` bytes to stderr, which holds
/// `more` bytes more. Expects the signal's exit code.
void interrupt_at(const Arguments& arguments, std::size_t words, std::size_t more, int signal) {
  const TempDirectory directory;
  const NarrowPipe errors(directory, words + more);
  Child child(Child::Kind::Pipe, arguments, {}, errors.path());
  ASSERT_TRUE(errors.wait_for(words)) << arguments[0];
  child.signal(signal);
  errors.open_wide();
  EXPECT_EQ(child.exit_code(), 128 + signal) << arguments[0];
}

constexpr int kSignals[] = {SIGINT, SIGTERM};

// The report has one line per tensor. The pipe holds the first line and little more.
TEST(Interrupt, ConvertAndExportLeaveNothing) {
  constexpr std::size_t kLine = 100;
  const TempDirectory source;
  const std::string hf = source.path("hf");
  ASSERT_EQ(cria({"export", kDemo, "-o", hf}).code, 0);
  for (const int signal : kSignals) {
    const TempDirectory target;
    const std::string out = target.path("out");
    interrupt_at({"export", kDemo, "-o", out, "-v"}, 1, kLine, signal);
    EXPECT_EQ(names_in(target.path()), std::set<std::string>()) << "export";
    interrupt_at({"convert", hf, "-o", out, "-v"}, 1, kLine, signal);
    EXPECT_EQ(names_in(target.path()), std::set<std::string>()) << "convert";
    target.write("out", "old");
    interrupt_at({"convert", hf, "-o", out, "-v"}, 1, kLine, signal);
    EXPECT_EQ(read_file(out), "old");
    EXPECT_EQ(names_in(target.path()), std::set<std::string>{"out"});
  }
}

/// Short windows of a short text; speeds are measured so often that an interruption finds them
/// under way.
Arguments sweep(const TempDirectory& directory, const std::string& types) {
  std::string text;
  for (int i = 1; i < 20; ++i)
    text += " In " + std::to_string(1700 + i) + " , the river rose by a metre .";
  return {"sweep",
          "-m",
          directory.path("base.gguf"),
          "-f",
          directory.write("text", text),
          "-o",
          directory.path("out"),
          "-c",
          "32",
          "--chunks",
          "2",
          "-p",
          "64",
          "-n",
          "16",
          "-r",
          "40",
          "--types",
          types};
}

/// Sends the signal when the file is there: what is timed then takes much longer.
void interrupt_sweep(const Arguments& arguments, const std::string& file, int signal) {
  Child child(Child::Kind::Pipe, arguments, {}, "/dev/null");
  for (int i = 0; i < 60'000 && !fs::exists(file); ++i) usleep(1000);
  ASSERT_TRUE(fs::exists(file)) << file;
  child.signal(signal);
  EXPECT_EQ(child.exit_code(), 128 + signal);
}

// First when the base is measured, then with the base known, when a model was made and is measured.
TEST(Interrupt, SweepKeepsItsProgress) {
  const std::string base = "base";
  for (const int signal : kSignals) {
    const TempDirectory directory;
    ASSERT_EQ(cria({"quantize", kDemo, directory.path("base.gguf"), "F16"}).code, 0);
    interrupt_sweep(sweep(directory, "Q4_0,Q8_0"), directory.path("out/base.logits"), signal);
    for (const std::string& name : names_in(directory.path("out")))
      EXPECT_TRUE(name == "base.logits" || name == base + ".row.json") << name;

    ASSERT_EQ(cria(sweep(directory, "Q8_0")).code, 0);
    const std::set<std::string> whole = names_in(directory.path("out"));
    const std::string name = base + "-Q4_0", made = directory.path("out/" + name + ".part.gguf");
    interrupt_sweep(sweep(directory, "Q4_0"), made, signal);
    std::set<std::string> more = names_in(directory.path("out"));
    more.erase(name + ".state");
    more.erase("base.logits");  // the next run compares with it, then removes it
    EXPECT_EQ(more, whole);
    EXPECT_EQ(cria(sweep(directory, "Q4_0")).code, 0);
    EXPECT_FALSE(fs::exists(made));
  }
}

}  // namespace
}  // namespace cria::test
