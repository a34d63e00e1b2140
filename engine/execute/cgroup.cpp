#include "engine/execute/cgroup.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>

namespace cria {
namespace {
namespace fs = std::filesystem;

// The number after `key` in a file of lines "key number …", or `missing`.
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

// The number a file begins with, or `missing` ("max" is no number).
std::size_t number_in(const fs::path& path, std::size_t missing) {
  std::ifstream in(path);
  std::size_t number = 0;
  return in >> number ? number : missing;
}

// visit(directory, version) for the process's groups of a resource and those around them. The
// outermost ones count even where nothing tells which groups these are. Within a container that may
// be the path outside, whose directories are not there: they limit nothing.
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
  return number_in(group / (version == 2 ? "memory.max" : "memory.limit_in_bytes"),
                   kUnlimitedMemory);
}

// Version 1 counts what lies in groups within a group as used, and says their cache in sums of its
// own.
std::size_t left_in(const fs::path& group, int version) {
  const bool second = version == 2;
  const std::size_t limit = limit_of(group, version);
  if (limit == kUnlimitedMemory) return limit;
  const std::size_t used =
      number_in(group / (second ? "memory.current" : "memory.usage_in_bytes"), 0);
  std::size_t cache = 0;
  for (const char* const key : {"active_file", "inactive_file"})
    cache += field(group / "memory.stat", (second ? "" : "total_") + std::string(key), 0);
  return limit - std::min(limit, used - std::min(used, cache));
}

// Version 2: "QUOTA PERIOD" or "max PERIOD"; version 1: -1: no quota.
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

}  // namespace cria
