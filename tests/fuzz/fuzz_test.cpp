// Runs every fuzz target on its seeds, on mutated seeds, and on inputs that once revealed a bug
// (regressions/TARGET/).
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/target.h"

namespace cria::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : targets()) names.emplace_back(target.name);
  return names;
}

class Fuzz : public testing::TestWithParam<std::string> {
 protected:
  const Target& target_ = *find_target(GetParam());
};

TEST_P(Fuzz, Seeds) {
  const auto seeds = target_.seeds();
  ASSERT_FALSE(seeds.empty());
  for (std::size_t i = 0; i < seeds.size(); ++i)
    EXPECT_NO_THROW(run(target_, seeds[i])) << "seed " << i;
  run(target_, "");
}

/// The first seed must be accepted: a target does little with a refused input.
TEST_P(Fuzz, FirstSeedIsValid) { EXPECT_NO_THROW(target_.run(target_.seeds().front())); }

TEST_P(Fuzz, ChangedSeeds) {
  if (target_.mutate == nullptr) return;
  Random random(1);
  for (const std::string& seed : target_.seeds()) {
    std::string input = seed;
    for (int i = 0; i < 4; ++i) {
      if (std::string next = target_.mutate(input, random, 1 << 16); !next.empty())
        input = std::move(next);
      EXPECT_NO_THROW(run(target_, input));
    }
  }
}

TEST_P(Fuzz, Regressions) {
  const fs::path directory = fs::path(CRIA_REGRESSIONS) / GetParam();
  if (!fs::exists(directory)) return;
  for (const auto& entry : fs::directory_iterator(directory)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    EXPECT_NO_THROW(run(target_, bytes)) << entry.path();
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(target_names()),
                         [](const auto& each) { return each.param; });

TEST(FuzzTargets, HaveNames) {
  EXPECT_EQ(find_target("gguf")->name, "gguf");
  EXPECT_EQ(find_target("none"), nullptr);
  for (const auto& entry : fs::directory_iterator(CRIA_REGRESSIONS))
    EXPECT_TRUE(!entry.is_directory() || find_target(entry.path().filename().string()) != nullptr)
        << entry.path();
}

TEST(MemoryDirectory, IsGoneAtTheEndAlsoAfterACrash) {
  std::string gone;
  {
    const MemoryDirectory directory;
    gone = directory.path();
    directory.write("file", "x");
  }
  EXPECT_FALSE(fs::exists(gone));
  const MemoryDirectory mine;
  const pid_t child = fork();
  if (child == 0) {
    const MemoryDirectory directory;
    std::ofstream(mine.path("path")) << directory.path() << std::flush;
    std::_Exit(1);  // no clean-up, as in a crash
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const std::string theirs = mine.read("path");
  ASSERT_TRUE(fs::exists(theirs)) << theirs;
  MemoryDirectory::remove_abandoned();
  EXPECT_FALSE(fs::exists(theirs));
  EXPECT_TRUE(fs::exists(mine.path()));
}

}  // namespace
}  // namespace cria::fuzz
