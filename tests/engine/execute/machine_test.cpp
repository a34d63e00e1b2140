// Limits of this process: control groups; cores by topology, affinity mask and quota.
#include "engine/execute/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

#include "tests/model/temporary_directory.h"

namespace cria::test {
namespace {
namespace fs = std::filesystem;

class Cgroups : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const fs::path path = fs::path(directory_.file("tree")) / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  /// membership: the process's groups.
  CgroupTree tree(const std::string& membership) {
    std::ofstream(directory_.file("membership")) << membership;
    return {directory_.file("tree"), directory_.file("membership")};
  }

 private:
  const TemporaryDirectory directory_;
};

// A systemd unit: nothing is said of the root.
TEST_F(Cgroups, ALimitAroundTheProcessCounts) {
  write("system.slice/cria.service/memory.max", "1000\n");
  write("system.slice/cria.service/memory.current", "700\n");
  write("system.slice/cria.service/memory.stat", "anon 300\ninactive_file 150\nactive_file 50\n");
  write("system.slice/cria.service/cpu.max", "250000 100000\n");
  write("system.slice/cria.service/own/memory.max", "max\n");
  write("system.slice/cria.service/own/cpu.max", "max 100000\n");
  for (const char* const group :
       {"0::/system.slice/cria.service\n", "0::/system.slice/cria.service/own\n"}) {
    EXPECT_EQ(cgroup_memory(tree(group)), 500U);
    EXPECT_EQ(cgroup_memory_limit(tree(group)), 1000U);
    EXPECT_EQ(cgroup_cpus(tree(group)), 3U);
  }
  EXPECT_EQ(cgroup_memory(tree("0::/system.slice\n")), kUnlimitedMemory);
  EXPECT_EQ(cgroup_memory_limit(tree("0::/system.slice\n")), kUnlimitedMemory);
  EXPECT_EQ(cgroup_cpus(tree("0::/system.slice\n")), 0U);
}

TEST_F(Cgroups, TheLeastOfSeveralCounts) {
  write("a/memory.max", "1000\n");
  write("a/cpu.max", "100000 100000\n");
  write("a/b/memory.max", "3000\n");
  write("a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_memory(tree("0::/a/b\n")), 1000U);
  EXPECT_EQ(cgroup_cpus(tree("0::/a/b\n")), 1U);
}

TEST_F(Cgroups, VersionOneHasATreeForEachResource) {
  write("memory/x/memory.limit_in_bytes", "2000\n");
  write("memory/x/memory.usage_in_bytes", "900\n");
  write("memory/x/memory.stat",
        "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 200\n");
  write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("cpu/y/cpu.cfs_quota_us", "50000\n");
  write("cpu/y/cpu.cfs_period_us", "100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  const CgroupTree both = tree("4:memory:/x\n2:cpuset:/z\n1:cpu,cpuacct:/y\n0::/\n");
  EXPECT_EQ(cgroup_memory(both), 1400U);
  EXPECT_EQ(cgroup_memory_limit(both), 2000U);
  EXPECT_EQ(cgroup_cpus(both), 1U);  // half a processor
}

// Its own group is the root of what it sees.
TEST_F(Cgroups, AcceptsAContainersPathOnTheHost) {
  write("memory.max", "800\n");
  write("cpu.max", "200000 100000\n");
  for (const char* const group : {"0::/docker/0123\n", "0::/\n", "", "nonsense\n::\n"}) {
    EXPECT_EQ(cgroup_memory(tree(group)), 800U) << group;
    EXPECT_EQ(cgroup_cpus(tree(group)), 2U) << group;
  }
}

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
  EXPECT_EQ(usable_processors(no_quota), 1U);
}

// Half a processor and one and a half: one thread, and two, of which each waits at times.
TEST_F(Affinity, QuotasMayBeFractions) {
  const TemporaryDirectory directory;
  const CgroupTree tree = {directory.file(""), directory.file("membership")};
  std::ofstream(directory.file("cpu.max")) << "50000 100000\n";
  EXPECT_EQ(usable_cores(tree), 1U);
  std::ofstream(directory.file("cpu.max")) << "150000 100000\n";
  EXPECT_EQ(cgroup_cpus(tree), 2U);
  EXPECT_EQ(usable_processors(tree), std::min(2U, static_cast<unsigned>(CPU_COUNT(&before_))));
}

TEST_F(Affinity, AndSoDoesTheQuota) {
  const TemporaryDirectory directory;
  const CgroupTree tree = {directory.file(""), directory.file("membership")};
  std::ofstream(directory.file("cpu.max")) << "100000 100000\n";
  EXPECT_EQ(usable_cores(tree), 1U);
  EXPECT_EQ(usable_processors(tree), 1U);
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
