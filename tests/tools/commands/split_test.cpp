#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "tests/tools/process.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

/// The bundled model as cria writes it.
std::string rewritten_demo(const TempDirectory& directory) {
  std::string path = directory.path("demo.gguf");
  EXPECT_EQ(cria({"quantize", kDemo, path, "Q8_0"}).code, 0);
  return path;
}

TEST(Split, MergingGivesTheFileBack) {
  const TempDirectory directory;
  const std::string demo = rewritten_demo(directory);
  for (const std::vector<std::string>& limit : {std::vector<std::string>{"--max-tensors", "20"},
                                                {"--max-size", "2M"},
                                                {"--max-size", "3000K", "--max-tensors", "7"}}) {
    const TempDirectory parts;
    std::vector<std::string> arguments = {"split", demo, parts.path("m"), "--json"};
    arguments.insert(arguments.end(), limit.begin(), limit.end());
    const Result split = cria(arguments);
    ASSERT_EQ(split.code, 0) << split.err;
    const SortedJson files = SortedJson::parse(split.out);
    ASSERT_GT(files.size(), 2U);
    for (const SortedJson& file : files) {
      EXPECT_EQ(file.at("bytes"), fs::file_size(file.at("file").get<std::string>()));
      if (limit[0] == "--max-size")
        EXPECT_LE(file.at("bytes"), limit[1] == "2M" ? 2'000'000 : 3'000'000);
      else
        EXPECT_LE(file.at("tensors"), 20);
    }
    const std::string first = files.at(0).at("file");
    EXPECT_NE(first.find("m-00001-of-000"), std::string::npos);
    EXPECT_EQ(cria({"run", "-m", first, "--temp", "0", "-n", "8", "-p", "The sea"}).out,
              cria({"run", "-m", kDemo, "--temp", "0", "-n", "8", "-p", "The sea"}).out);
    const Result merged = cria({"merge", first, parts.path("whole.gguf")});
    ASSERT_EQ(merged.code, 0) << merged.err;
    EXPECT_EQ(read_file(parts.path("whole.gguf")), read_file(demo));
  }
}

/// Lowers the soft limit of open files of this process and its children.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t limit) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lowered = {limit, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &lowered);
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_ = {};
};

TEST(Split, PartsMayBeMoreThanOpenFiles) {
  const TempDirectory directory;
  constexpr std::size_t kLimit = 40;
  const DescriptorLimit limit(kLimit);
  const Result split = cria({"split", kDemo, directory.path("m"), "--max-tensors", "1", "--json"});
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_GT(SortedJson::parse(split.out).size(), kLimit);
}

TEST(Split, DryRunWritesNothing) {
  const TempDirectory directory;
  const Result result =
      cria({"split", kDemo, directory.path("m"), "--max-size", "2M", "--dry-run"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("m-00001-of-0000"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(Split, ReportsErrors) {
  const TempDirectory directory;
  EXPECT_EQ(cria({"split", kDemo, directory.path("m"), "--max-size", "much"}).code, 2);
  const Result small = cria({"split", kDemo, directory.path("m"), "--max-size", "200K"});
  EXPECT_EQ(small.code, 1);
  EXPECT_NE(small.err.find("is too small for a tensor"), std::string::npos) << small.err;
  EXPECT_EQ(cria({"split", kDemo, "/proc/m"}).code, 1);
  const Result whole = cria({"merge", kDemo, directory.path("m")});
  EXPECT_EQ(whole.code, 1);
  EXPECT_NE(whole.err.find("nothing to merge"), std::string::npos) << whole.err;
  ASSERT_EQ(cria({"split", kDemo, directory.path("m"), "--max-tensors", "30"}).code, 0);
  const std::string second = directory.path("m-00002-of-00003.gguf"), bytes = read_file(second);
  const Result itself = cria({"merge", directory.path("m-00001-of-00003.gguf"), second});
  EXPECT_EQ(itself.code, 1);
  EXPECT_NE(itself.err.find("it is the input itself"), std::string::npos) << itself.err;
  EXPECT_EQ(read_file(second), bytes);
}

}  // namespace
}  // namespace cria::test
