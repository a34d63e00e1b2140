#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/tools/process.h"

namespace cria::test {
namespace {

constexpr std::size_t kRow = 4096 * sizeof(float);  // the demo model's vocabulary

TEST(Logits, OneRowPerToken) {
  const TempDirectory directory;
  const Result result = cria({"logits", "--tokens", "1,400,500", "-o", directory.path("out.f32")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out + result.err, "");
  const std::string all = read_file(directory.path("out.f32"));
  ASSERT_EQ(all.size(), 3 * kRow);
  ASSERT_EQ(
      cria({"logits", "--tokens", "1 400", "-b", "1", "-t", "1", "-o", directory.path("two.f32")})
          .code,
      0);
  EXPECT_TRUE(all.substr(0, 2 * kRow) == read_file(directory.path("two.f32")))
      << "a prefix has other logits";
  EXPECT_FALSE(all.substr(0, kRow) == all.substr(kRow, kRow));
}

TEST(Logits, LeavesNoFileAfterAFailure) {
  const TempDirectory directory;
  const std::string target = directory.write("old.f32", "old");
  const Result result = cria({"logits", "--tokens", "1,4096", "-o", target});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "cria: error: --tokens: not a token id: expected 0 to 4095, got 4096 (see cria logits "
            "--help)\n");
  EXPECT_EQ(read_file(target), "old");
  EXPECT_EQ(cria({"logits", "--tokens", "1,2,3", "-c", "2", "-o", target}).code, 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(Logits, NamesAnUnwritableOutput) {
  const TempDirectory directory;
  const std::string nowhere = directory.path("no/such/dir.f32");
  EXPECT_EQ(cria({"logits", "--tokens", "1", "-o", nowhere}).err,
            "cria: error: " + nowhere + ": cannot write: No such file or directory\n");
  EXPECT_EQ(cria({"logits", "--tokens", "1", "-o", directory.path()}).err,
            "cria: error: " + directory.path() + ": cannot write: it is a directory\n");
  const std::string model = directory.write("model.gguf", read_file(kDemo));
  EXPECT_EQ(cria({"logits", "-m", model, "--tokens", "1", "-o", model}).err,
            "cria: error: " + model + ": cannot write: it is the input itself (" + model + ")\n");
  const Result full = cria({"logits", "--tokens", "1", "-o", "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_EQ(full.err, "cria: error: /dev/full: cannot write: No space left on device\n");
}

TEST(Logits, ADashIsStdout) {
  const TempDirectory directory;
  const std::string file = directory.path("out");
  ASSERT_EQ(cria({"logits", "--tokens", "1,2", "-o", file}).code, 0);
  const Result result = cria({"logits", "--tokens", "1,2", "-o", "-"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(result.out == read_file(file)) << result.out.size() << " bytes";
}

TEST(Logits, ATerminalGetsNoRawValues) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"logits", "--tokens", "1,2", "-o", "-"}, {"dequant", "F32"}}) {
    Child child(Child::Kind::Terminal, arguments);
    EXPECT_EQ(child.exit_code(), 1);
    EXPECT_TRUE(child.output().starts_with("cria: error: stdout: refusing to write binary data"))
        << child.output();
  }
}

TEST(Logits, ProfileIsATableOnStderr) {
  const TempDirectory directory;
  const Result result =
      cria({"logits", "--tokens", "1,2,3", "-o", directory.path("out"), "--profile"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("attn"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace cria::test
