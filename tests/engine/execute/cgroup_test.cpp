// What control groups allow, from trees as the system shows them.
#include "engine/execute/cgroup.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cria::test
