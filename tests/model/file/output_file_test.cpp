// Files that are complete or not there, and side files with checksums.
#include "model/file/binary_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/error.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest()
      : directory_(fs::temp_directory_path() / ("cria-output-" + std::to_string(getpid()))) {
    fs::create_directories(directory_);
  }
  ~OutputFileTest() override { fs::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (directory_ / name).string();
  }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& path, std::string_view text) {
    OutputFile file(path);
    file.write(text);
    file.finish();
  }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), {}));
  }
  template <class F>
  static std::string refusal(F&& f) {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const fs::path directory_;
};

TEST_F(OutputFileTest, ReplacesItsTargetWhenItIsFinished) {
  write(path("a"), "old");
  {
    OutputFile file(path("a"));
    file.write("new");
    EXPECT_EQ(content(path("a")), "old");
    file.finish();
  }
  EXPECT_EQ(content(path("a")), "new");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputFileTest, WritesOfAnySizeFollowOneAnother) {
  std::string want;
  {
    OutputFile file(path("a"), 3 * OutputFile::kPiece);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, OutputFile::kPiece - 1,
                                   OutputFile::kPiece, std::size_t{7}, OutputFile::kPiece - 7}) {
      const std::string bytes(size, static_cast<char>('a' + want.size() % 23));
      file.write(bytes);
      want += bytes;
    }
    file.finish();
  }
  EXPECT_EQ(want.size(), 3 * OutputFile::kPiece);
  EXPECT_TRUE(content(path("a")) == want);  // EXPECT_EQ would print them
}

TEST_F(OutputFileTest, LeavesNothingUnlessFinished) {
  write(path("a"), "old");
  {
    OutputFile file(path("a")), other(path("b"));
    file.write("new");
    other.write("new");
  }
  EXPECT_EQ(content(path("a")), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputFileTest, ALinkStaysAndItsFileIsReplaced) {
  write(path("a"), "old");
  fs::create_symlink(path("a"), path("link"));
  write(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(content(path("a")), "new");
}

// Their links say "pipe:[…]", or a name that is gone: what they are is known by what they lead to.
TEST_F(OutputFileTest, DoesNotFollowSystemLinks) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  try {
    OutputFile file("/dev/fd/" + std::to_string(ends[1]));
    ADD_FAILURE() << "a pipe was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("not a regular file"), std::string::npos)
        << error.what();
  }
  for (const int end : ends) close(end);
  const int gone = open(path("gone").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(gone, 0);
  fs::remove(path("gone"));
  EXPECT_THROW(OutputFile("/dev/fd/" + std::to_string(gone)), Error);
  close(gone);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(OutputFileTest, CreatesTheTargetOfADanglingLink) {
  fs::create_directory(path("there"));
  fs::create_symlink("there/a", path("link"));
  fs::create_symlink("link", path("other"));
  write(path("other"), "new");
  EXPECT_TRUE(fs::is_symlink(path("other")));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(content(path("there/a")), "new");
  fs::create_symlink("circle", path("circle"));
  write(path("circle"), "new");  // leads nowhere
  EXPECT_EQ(content(path("circle")), "new");
}

TEST_F(OutputFileTest, RecognizesItsInputByAnyName) {
  write(path("a"), "old");
  fs::create_symlink("a", path("link"));
  fs::create_hard_link(path("a"), path("hard"));
  for (const char* name : {"a", "./a", "link", "hard"})
    EXPECT_EQ(refusal([&] { require_other_file(path("a"), path(name)); }),
              path(name) + ": cannot write: it is the input itself (" + path("a") + ")");
  EXPECT_EQ(refusal([&] { require_other_file(path("a"), path("b")); }), "");
  EXPECT_EQ(refusal([&] { require_other_file("-", path("b")); }), "");
  EXPECT_EQ(refusal([&] { require_writable(path("a")); }), "");
  EXPECT_EQ(refusal([&] { require_writable(path("none/a")); }),
            path("none/a") + ": cannot write: No such file or directory");
  EXPECT_EQ(content(path("a")), "old");
  EXPECT_EQ(entries(), 3U);
}

TEST_F(OutputFileTest, RejectsPathsItCannotReplace) {
  EXPECT_EQ(refusal([&] { OutputFile file(directory_.string()); }),
            directory_.string() + ": cannot write: it is a directory");
  EXPECT_EQ(refusal([] { OutputFile file("/dev/null"); }),
            "/dev/null: cannot write: not a regular file");
  EXPECT_EQ(refusal([&] { OutputFile file(path("none/a")); }),
            path("none/a") + ": cannot write: No such file or directory");
  EXPECT_NE(
      refusal([&] { OutputFile file(path("a"), std::uint64_t{1} << 62); }).find("not enough space"),
      std::string::npos);
  EXPECT_EQ(entries(), 0U);
}

TEST_F(OutputFileTest, SideFilesAreReadBackAndDamageIsFound) {
  {
    BinaryWriter out(path("side"));
    out.write_number(std::uint32_t{7});
    out.write_checksum();
    out.finish();
  }
  {
    BinaryReader in(path("side"));
    EXPECT_EQ(in.size(), 12U);
    EXPECT_EQ(in.read_number<std::uint32_t>(), 7U);
    in.check_checksum();
  }
  std::string bytes = content(path("side"));
  bytes[0] = 8;
  write(path("side"), bytes);
  BinaryReader in(path("side"));
  (void)in.read_number<std::uint32_t>();
  EXPECT_EQ(refusal([&] { in.check_checksum(); }), path("side") + ": damaged: wrong checksum");
}

}  // namespace
}  // namespace cria::test
