// How many threads are worth starting, and where they run.
#pragma once

#include <span>
#include <string>

#include "engine/execute/cgroup.h"

namespace cria {

/// Cores this process may use: physical ones (hyper-threads share one), within the affinity mask
/// and the CPU quotas of its cgroups.
unsigned usable_cores(const CgroupTree& tree = {});

/// Physical cores that these logical CPUs belong to, at least 1. topology: the directory in which
/// the system describes them; a CPU of which it says nothing is a core of its own.
unsigned physical_cores(std::span<const int> cpus,
                        const std::string& topology = "/sys/devices/system/cpu");

/// Moves the calling thread to another CPU, if it runs on this one and may run elsewhere. False if
/// it cannot.
bool step_aside(int cpu);

}  // namespace cria
