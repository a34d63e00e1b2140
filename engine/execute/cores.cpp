#include "engine/execute/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

namespace cria {
namespace {

// The first line of a small system file, or "".
std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

unsigned cores_of_mask() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0)
    return std::max(1U, std::thread::hardware_concurrency());
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  return physical_cores(cpus);
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
  const unsigned cores = cores_of_mask();
  const unsigned quota = cgroup_cpus(tree);
  return quota > 0 ? std::min(cores, quota) : cores;
}

bool step_aside(int cpu) {
  if (sched_getcpu() != cpu) return true;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return false;
  cpu_set_t others = mask;
  CPU_CLR(static_cast<unsigned>(cpu), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return false;
  return sched_setaffinity(0, sizeof mask, &mask) == 0;  // it may go where it likes from here
}

}  // namespace cria
