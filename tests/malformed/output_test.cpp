// Full disks, targets that cannot be written, output that is the input, signals in the middle of a
// write.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/malformed/refusal.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

// A limit of the file's size stands for a disk that is full in the middle: the write fails in the
// same place.
void fill_disk() {
  const rlimit size{20'000, 20'000};
  setrlimit(RLIMIT_FSIZE, &size);
  std::signal(SIGXFSZ, SIG_IGN);
}

class MalformedOutput : public testing::Test {
 protected:
  /// Every program that writes a model, and the file that it writes.
  struct Writer {
    std::string target;
    std::vector<std::string> arguments;
  };
  [[nodiscard]] std::vector<Writer> writers(const std::string& folder) const {
    const std::string out = directory_.path(folder + "/out.gguf");
    return {{out, {"quantize", model_, out, "F16"}},
            {out, {"edit", model_, out, "--set", "a=u8:1"}},
            {directory_.path(folder + "/s-00001-of-00002.gguf"),
             {"split", model_, directory_.path(folder + "/s"), "--max-tensors", "12"}},
            {directory_.path(folder + "/hf/model.safetensors"),
             {"export", model_, "-o", directory_.path(folder + "/hf")}}};
  }
  [[nodiscard]] std::size_t files_in(const std::string& folder) const {
    std::size_t n = 0;
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(directory_.path(folder)))
      n += entry.is_regular_file() ? 1U : 0U;
    return n;
  }

  TempDirectory directory_;
  std::string model_ = directory_.write("model.gguf", valid_model().bytes());
};

TEST_F(MalformedOutput, FullDisk) {
  fs::create_directory(directory_.path("full"));
  for (const Writer& writer : writers("full")) {
    expect_error(limited(writer.arguments, "", fill_disk),
                 directory_.path("full") + "*: cannot write: File too large");
    EXPECT_EQ(files_in("full"), 0U) << writer.arguments[0] << " leaves something behind";
  }
}

TEST_F(MalformedOutput, ReadOnlyTarget) {
  fs::create_directory(directory_.path("locked"));
  fs::create_directory(directory_.path("locked/hf"));
  for (const char* folder : {"locked/hf", "locked"})
    ASSERT_EQ(chmod(directory_.path(folder).c_str(), 0500), 0);
  for (const Writer& writer : writers("locked"))
    expect_error(limited(writer.arguments, "", obey_file_modes),
                 directory_.path("locked") + "*: cannot write: Permission denied");
  for (const char* folder : {"locked", "locked/hf"})
    ASSERT_EQ(chmod(directory_.path(folder).c_str(), 0700), 0);
}

TEST_F(MalformedOutput, OutputIsTheInput) {
  const std::string link = directory_.path("link.gguf"), hard = directory_.path("hard.gguf");
  fs::create_symlink(model_, link);
  fs::create_hard_link(model_, hard);
  const std::string before = read_file(model_);
  for (const std::string& target : {model_, link, hard})
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"quantize", model_, target, "Q4_0", "--allow-requantize"},
          {"edit", model_, target, "--set", "a=u8:1"}})
      expect_error(limited(arguments),
                   target + ": cannot write: it is the input itself (" + model_ + ")");
  EXPECT_EQ(read_file(model_), before);
}

TEST_F(MalformedOutput, DevicesAndDirectories) {
  expect_error(limited({"quantize", model_, "/dev/null", "Q4_0", "--allow-requantize"}),
               "/dev/null: cannot write: not a regular file");
  expect_error(limited({"quantize", model_, directory_.path(), "Q4_0", "--allow-requantize"}),
               directory_.path() + ": cannot write: it is a directory");
  expect_error(
      limited({"quantize", model_, directory_.path("none/out.gguf"), "Q4_0", "--allow-requantize"}),
      directory_.path("none/out.gguf") + ": cannot write: No such file or directory");
}

// Whenever the signal comes, the target is unchanged or complete, and no other file remains.
TEST_F(MalformedOutput, SignalsInTheMiddle) {
  const std::string whole = directory_.path("whole.gguf"), out = directory_.path("sig/out.gguf"),
                    old = "what was there before";
  ASSERT_EQ(cria({"quantize", kDemo, whole, "Q6_K", "--allow-requantize", "-t", "1"}).code, 0);
  const std::string complete = read_file(whole);
  fs::create_directory(directory_.path("sig"));
  for (const int number : {SIGINT, SIGTERM, SIGKILL}) {
    for (useconds_t milliseconds = 0; milliseconds < 100; milliseconds += 24) {
      directory_.write("sig/out.gguf", old);
      Child child(Child::Kind::Pipe,
                  {"quantize", kDemo, out, "Q6_K", "--allow-requantize", "-t", "1"});
      usleep(1000 * milliseconds);
      child.signal(number);
      const int code = child.exit_code();
      const std::string now = read_file(out);
      EXPECT_TRUE(now == old || now == complete)
          << "signal " << number << " after " << milliseconds << " ms";
      EXPECT_TRUE(now != old || code != 0);
      EXPECT_TRUE(number == SIGKILL || files_in("sig") == 1);
    }
  }
}

}  // namespace
}  // namespace cria::test
