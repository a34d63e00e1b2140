// The machine: processor, caches, memory, instruction sets.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/execute/machine.h"

namespace cria::tools {

struct CacheInfo {
  unsigned level = 0;
  std::string type;         ///< "Data", "Instruction", "Unified"
  std::uint64_t bytes = 0;  ///< size of one cache
};

struct MachineInfo {
  std::string cpu;                ///< the model's name; "unknown CPU"
  unsigned cores = 0;             ///< physical ones that this process may use
  unsigned processors = 0;        ///< logical ones that are online
  std::vector<CacheInfo> caches;  ///< the first processor's
  std::uint64_t memory = 0;       ///< bytes that this process may have
  std::uint64_t available = 0;    ///< bytes that the system and the cgroups would give now
};

/// Reads /proc, /sys and cgroups; unknown values stay empty.
MachineInfo this_machine(const CgroupTree& tree = {});

/// The processor's name.
std::string cpu_name();

/// "NAME, 2 cores, avx2": what speeds depend on, with the cores and the instruction set that this
/// process may use. Throws UnknownInstructionSet.
std::string machine_label();

/// measure: with the roofline of all physical cores, which takes some seconds.
std::string cpu_text(bool measure);
nlohmann::ordered_json cpu_json(bool measure);

}  // namespace cria::tools
