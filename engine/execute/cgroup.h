// What the control groups (cgroups) that this process is in allow it, of version 2 and of version
// 1: a container's, a systemd unit's.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

namespace cria {

/// Where the system tells: a mounted tree, and in a file in which of its groups the process is.
struct CgroupTree {
  std::string root = "/sys/fs/cgroup";
  std::string membership = "/proc/self/cgroup";
};

inline constexpr std::size_t kUnlimitedMemory = std::numeric_limits<std::size_t>::max();

/// Bytes that the process's groups and those around them leave, where page cache gives way.
std::size_t cgroup_memory(const CgroupTree& tree = {});
/// Bytes that they may have at all: the least of their limits.
std::size_t cgroup_memory_limit(const CgroupTree& tree = {});
/// CPUs that their quotas pay for; 0: no limit.
unsigned cgroup_cpus(const CgroupTree& tree = {});

}  // namespace cria
