#include "engine/execute/machine.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace cria {
namespace {
namespace fs = std::filesystem;

// Returns the number after `key` in a file of lines "key number …", or `missing`.
std::size_t field(const fs::path& path, const std::string& key, std::size_t missing) {
  std::ifstream in(path);
  std::string word;
  std::size_t number = 0;
  while (in >> word) {
    if (word == key && in >> number) return number;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return missing;
}

// Returns the number that a file begins with, or `missing` (for "max", too).
std::size_t leading_number(const fs::path& path, std::size_t missing) {
  std::ifstream in(path);
  std::size_t number = 0;
  return in >> number ? number : missing;
}

// visit(directory, version) for the process's groups of a resource and their ancestors. The roots
// are visited even if the membership is unknown. In a container the listed path may be the host's,
// whose directories do not exist: they limit nothing.
template <class Visit>
void for_each_group(const CgroupTree& tree, const std::string& resource, Visit&& visit) {
  const fs::path root_2 = tree.root, root_1 = root_2 / resource;
  visit(root_2, 2);
  visit(root_1, 1);
  std::ifstream in(tree.membership);
  for (std::string line;
       std::getline(in, line);) {  // "4:memory:/path", "1:cpu,cpuacct:/path", "0::/path"
    const std::size_t names = line.find(':') + 1, path = line.find(':', names) + 1;
    if (names == 0 || path == 0) continue;
    const std::string listed = "," + line.substr(names, path - 1 - names) + ",";
    const bool second = listed == ",,";
    if (!second && listed.find("," + resource + ",") == std::string::npos) continue;
    fs::path group = fs::path(line.substr(path)).relative_path();
    for (; !group.empty(); group = group.parent_path())
      visit((second ? root_2 : root_1) / group, second ? 2 : 1);
  }
}

std::size_t limit_of(const fs::path& group, int version) {
  return leading_number(group / (version == 2 ? "memory.max" : "memory.limit_in_bytes"),
                        kUnlimitedMemory);
}

// Version 1 counts the memory of inner groups as used and lists their cache under "total_" keys.
std::size_t left_in(const fs::path& group, int version) {
  const bool second = version == 2;
  const std::size_t limit = limit_of(group, version);
  if (limit == kUnlimitedMemory) return limit;
  const std::size_t used =
      leading_number(group / (second ? "memory.current" : "memory.usage_in_bytes"), 0);
  std::size_t cache = 0;
  for (const char* const key : {"active_file", "inactive_file"})
    cache += field(group / "memory.stat", (second ? "" : "total_") + std::string(key), 0);
  return limit - std::min(limit, used - std::min(used, cache));
}

// Version 2 has "QUOTA PERIOD" or "max PERIOD" in one file; version 1 has -1 for no quota.
double cpus_of(const fs::path& group, int version) {
  double quota = 0, period = 0;
  std::ifstream first(group / (version == 2 ? "cpu.max" : "cpu.cfs_quota_us"));
  if (!(first >> quota)) return 0;
  std::ifstream second(group / "cpu.cfs_period_us");
  if (!((version == 2 ? first : second) >> period)) return 0;
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

std::size_t cgroup_memory(const CgroupTree& tree) {
  std::size_t least = kUnlimitedMemory;
  for_each_group(tree, "memory", [&](const fs::path& group, int version) {
    least = std::min(least, left_in(group, version));
  });
  return least;
}

std::size_t cgroup_memory_limit(const CgroupTree& tree) {
  std::size_t least = kUnlimitedMemory;
  for_each_group(tree, "memory", [&](const fs::path& group, int version) {
    least = std::min(least, limit_of(group, version));
  });
  return least;
}

unsigned cgroup_cpus(const CgroupTree& tree) {
  double least = 0;
  for_each_group(tree, "cpu", [&](const fs::path& group, int version) {
    const double cpus = cpus_of(group, version);
    if (cpus > 0) least = least > 0 ? std::min(least, cpus) : cpus;
  });
  return least > 0 ? static_cast<unsigned>(std::clamp(std::round(least), 1.0, 1e6)) : 0;
}

namespace {

// Returns the first line of a small system file, or "".
std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// Returns the logical CPUs of the affinity mask, at least one.
std::vector<int> cpus_of_mask() {
  cpu_set_t mask;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  if (!cpus.empty()) return cpus;
  cpus.resize(std::max(1U, std::thread::hardware_concurrency()));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

unsigned within_quota(std::size_t cpus, const CgroupTree& tree) {
  const unsigned quota = cgroup_cpus(tree), all = static_cast<unsigned>(cpus);
  return quota > 0 ? std::min(all, quota) : all;
}

}  // namespace

unsigned physical_cores(std::span<const int> cpus, const std::string& topology) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string number = std::to_string(cpu);
    const std::string siblings =
        first_line(topology + "/cpu" + number + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? "cpu " + number : siblings);
  }
  return std::max<unsigned>(1, static_cast<unsigned>(cores.size()));
}

unsigned usable_cores(const CgroupTree& tree) {
  return within_quota(physical_cores(cpus_of_mask()), tree);
}

unsigned usable_processors(const CgroupTree& tree) {
  return within_quota(cpus_of_mask().size(), tree);
}

bool step_aside(int cpu) {
  if (sched_getcpu() != cpu) return true;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return false;
  cpu_set_t others = mask;
  CPU_CLR(static_cast<unsigned>(cpu), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return false;
  return sched_setaffinity(0, sizeof mask, &mask) == 0;  // from here on the system may move it
}

SystemMemory::SystemMemory(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error("not enough memory: expected " + std::to_string(bytes >> 20) + " MiB more");
  madvise(memory, bytes, MADV_HUGEPAGE);  // advice: a refusal costs speed only
  data_ = static_cast<std::byte*>(memory);
}

SystemMemory::~SystemMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

SystemMemory::SystemMemory(SystemMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SystemMemory& SystemMemory::operator=(SystemMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::size_t available_memory(const CgroupTree& tree) {
  std::size_t machine = kUnlimitedMemory;
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word; in.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    std::size_t kib = 0;
    if (word == "MemAvailable:" && in >> kib) machine = kib * 1024;
  }
  return std::min(machine, cgroup_memory(tree));
}

std::string available_kernel_names() {
  std::string names;
  for (const KernelSet* set : available_kernels())
    names += (names.empty() ? "" : ", ") + std::string(set->isa);
  return names;
}

const KernelSet& kernels_in_use() {
  if (const KernelSet* kernels = active_kernels()) return *kernels;
  const char* const named = std::getenv("CRIA_ISA");
  throw UnknownInstructionSet("CRIA_ISA=" + printable(named == nullptr ? "" : named) +
                              " names no instruction set that can run here: expected one of " +
                              available_kernel_names());
}

}  // namespace cria
