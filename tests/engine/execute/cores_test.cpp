// How many cores there are: of a topology as the system shows it, within a mask and a quota.
#include "engine/execute/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

#include "tests/model/temporary_directory.h"

namespace cria::test {
namespace {
namespace fs = std::filesystem;

class Topology : public testing::Test {
 protected:
  void describe(int cpu, const std::string& siblings) const {
    const fs::path path = fs::path(root_) / ("cpu" + std::to_string(cpu)) / "topology";
    fs::create_directories(path);
    std::ofstream(path / "thread_siblings_list") << siblings << "\n";
  }
  [[nodiscard]] unsigned cores(const std::vector<int>& cpus) const {
    return physical_cores(cpus, root_);
  }

 private:
  const TemporaryDirectory directory_;
  const std::string root_ = directory_.file("cpu");
};

TEST_F(Topology, HyperThreadsShareACore) {
  for (const int cpu : {0, 4}) describe(cpu, "0,4");
  for (const int cpu : {1, 5}) describe(cpu, "1,5");
  EXPECT_EQ(cores({0, 1, 4, 5}), 2U);
  EXPECT_EQ(cores({0, 4}), 1U) << "one core's alone, by an affinity mask";
  EXPECT_EQ(cores({0, 5}), 2U) << "a thread of each";
}

TEST_F(Topology, UndescribedProcessorsAreSeparateCores) {
  describe(0, "0-1");
  describe(1, "0-1");
  EXPECT_EQ(cores({0, 1, 2, 3}), 3U);
  EXPECT_EQ(cores({}), 1U) << "never none";
}

/// The calling thread's CPUs as they were, at its end.
class Affinity : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0); }
  void TearDown() override { sched_setaffinity(0, sizeof before_, &before_); }
  static void run_only_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(cpu), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  }

  cpu_set_t before_ = {};
};

TEST_F(Affinity, BoundsTheCores) {
  const TemporaryDirectory directory;
  const CgroupTree no_quota = {directory.file(""), directory.file("membership")};
  EXPECT_LE(usable_cores(no_quota), static_cast<unsigned>(CPU_COUNT(&before_)));
  run_only_on(sched_getcpu());
  EXPECT_EQ(usable_cores(no_quota), 1U);
}

TEST_F(Affinity, AndSoDoesTheQuota) {
  const TemporaryDirectory directory;
  const CgroupTree tree = {directory.file(""), directory.file("membership")};
  std::ofstream(directory.file("cpu.max")) << "100000 100000\n";
  EXPECT_EQ(usable_cores(tree), 1U);
  const unsigned all = usable_cores({directory.file("none"), directory.file("membership")});
  std::ofstream(directory.file("cpu.max")) << "409600000 100000\n";
  EXPECT_EQ(usable_cores(tree), all) << "a quota gives no cores that are not there";
}

TEST_F(Affinity, AThreadStepsAsideOnlyWhereItMayRunElsewhere) {
  EXPECT_TRUE(step_aside(CPU_SETSIZE - 1)) << "it is not there";
  const int here = sched_getcpu();
  EXPECT_EQ(step_aside(here), CPU_COUNT(&before_) > 1);
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before_, &after)) << "it may come back";
  run_only_on(here);
  EXPECT_FALSE(step_aside(here));
  EXPECT_EQ(sched_getcpu(), here);
}

}  // namespace
}  // namespace cria::test
