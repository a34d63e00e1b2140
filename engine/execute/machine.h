// The cores, memory and instruction set that this process may use. Knows affinity masks and control
// groups (cgroups) of versions 1 and 2, which limit containers and systemd units.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>

#include "kernels/kernels.h"
#include "model/error.h"

namespace cria {

/// Paths of the mounted cgroup tree, and of the file that lists the groups of this process.
struct CgroupTree {
  std::string root = "/sys/fs/cgroup";
  std::string membership = "/proc/self/cgroup";
};

inline constexpr std::size_t kUnlimitedMemory = std::numeric_limits<std::size_t>::max();

/// Returns the bytes that the process's groups and their ancestors leave. Page cache counts as
/// free.
std::size_t cgroup_memory(const CgroupTree& tree = {});
/// Returns the smallest of their memory limits, in bytes.
std::size_t cgroup_memory_limit(const CgroupTree& tree = {});
/// Returns the number of CPUs that their quotas allow; 0: no limit.
unsigned cgroup_cpus(const CgroupTree& tree = {});

/// Returns the number of cores that this process may use: physical ones (hyper-threads share one),
/// within the affinity mask and the CPU quotas of its cgroups.
unsigned usable_cores(const CgroupTree& tree = {});
/// Returns the number of logical CPUs that it may use, in the same limits. More threads than that
/// compute no faster.
unsigned usable_processors(const CgroupTree& tree = {});
/// Returns the number of physical cores of logical CPUs, at least 1. topology: the system's
/// directory of CPUs; one that it does not describe counts as a core.
unsigned physical_cores(std::span<const int> cpus,
                        const std::string& topology = "/sys/devices/system/cpu");
/// Moves the calling thread away from this CPU if it runs there. Returns false if it cannot.
bool step_aside(int cpu);

/// Returns the bytes that new memory may take before the system swaps or kills: MemAvailable, or
/// what the cgroups leave if that is less. Page cache counts as available.
std::size_t available_memory(const CgroupTree& tree = {});

/// Owns zeroed memory of the system, which is resident only where it was touched.
class SystemMemory {
 public:
  SystemMemory() = default;
  /// Throws Error if the system refuses.
  explicit SystemMemory(std::size_t bytes);
  ~SystemMemory();
  SystemMemory(SystemMemory&& other) noexcept;
  SystemMemory& operator=(SystemMemory&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// $CRIA_ISA names no instruction set that runs here: wrong usage, not a bad file.
class UnknownInstructionSet : public Error {
 public:
  using Error::Error;
};

/// Returns active_kernels(); throws UnknownInstructionSet.
const KernelSet& kernels_in_use();
/// Returns the supported instruction sets, best first: "avx512vnni, avx2, scalar".
std::string available_kernel_names();

}  // namespace cria
