// How many threads are worth starting, and where they run.
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "engine/execute/cgroup.h"
#include "engine/execute/team.h"

namespace cria {
namespace {

// The first line of a small system file, or "".
std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

unsigned physical_cores() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return std::max(1U, std::thread::hardware_concurrency());
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string number = std::to_string(cpu);
    const std::string siblings =
        first_line("/sys/devices/system/cpu/cpu" + number + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? "cpu " + number : siblings);
  }
  return std::max<unsigned>(1, static_cast<unsigned>(cores.size()));
}

}  // namespace

unsigned usable_cores() {
  const unsigned cores = physical_cores();
  const unsigned quota = cgroup_cpus();
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
