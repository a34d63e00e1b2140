#include "tools/report/machine_report.h"

#include <nlohmann/json.hpp>

#include "engine/execute/machine.h"
#include "model/plural.h"
#include "tools/report/bench_report.h"
#include "tools/report/machine.h"
#include "tools/report/roofline.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

nlohmann::ordered_json limits_json(const Roofline& limits, unsigned threads) {
  return {{"threads", threads},
          {"read_gbytes_per_second", limits.read_gbytes},
          {"int8_gmac_per_second", limits.int8_gmacs},
          {"float32_gmac_per_second", limits.float_gmacs},
          {"bfloat16_gmac_per_second", limits.bf16_gmacs},
          {"int8_matrix_gmac_per_second", limits.matrix_gmacs}};
}

}  // namespace

nlohmann::ordered_json cpu_json(bool measure) {
  const MachineInfo machine = this_machine();
  nlohmann::ordered_json available = nlohmann::ordered_json::array(), caches = available;
  for (const KernelSet* set : available_kernels()) available.push_back(set->isa);
  for (const CacheInfo& cache : machine.caches)
    caches.push_back({{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}});
  nlohmann::ordered_json json = {{"available", available},
                                 {"used", kernels_in_use().isa},
                                 {"model", machine.cpu},
                                 {"cores", machine.cores},
                                 {"processors", machine.processors},
                                 {"caches", caches},
                                 {"memory_bytes", machine.memory},
                                 {"available_bytes", machine.available}};
  if (measure)
    json["limits"] = limits_json(measure_roofline(kernels_in_use(), machine.cores), machine.cores);
  return json;
}

std::string cpu_text(bool measure) {
  const MachineInfo machine = this_machine();
  std::string caches;
  for (const CacheInfo& cache : machine.caches)
    caches += (caches.empty() ? "" : ", ") + std::string("L") + std::to_string(cache.level) +
              (cache.type == "Unified" ? "" : " " + cache.type) + " " + human_bytes(cache.bytes);
  std::string text = machine.cpu + "\n" + counted(machine.cores, "physical core") + ", " +
                     counted(machine.processors, "logical processor") +
                     "\ncaches: " + (caches.empty() ? "not known" : caches) +
                     "\nmemory: " + human_bytes(machine.memory) + ", available " +
                     human_bytes(machine.available) +
                     "\ninstruction sets: " + available_kernel_names() +
                     "\nin use: " + std::string(kernels_in_use().isa) + "\n";
  if (!measure) return text;
  return text + "with " + counted(machine.cores, "thread") + ": " +
         roofline_text(measure_roofline(kernels_in_use(), machine.cores)) + "\n";
}

}  // namespace cria::tools
