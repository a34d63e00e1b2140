#include "tools/report/roofline.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/execute/machine.h"
#include "model/plural.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// "NAME : value" or "NAME: value kB" of a file in /proc; "" if the line is missing.
std::string proc_value(const char* file, std::string_view name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return colon == std::string::npos || begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

/// "1024K", "32M", "12345 kB".
std::uint64_t size_value(const std::string& text) {
  char* unit = nullptr;
  const std::uint64_t number = std::strtoull(text.c_str(), &unit, 10);
  while (*unit == ' ') ++unit;
  return *unit == 'K' || *unit == 'k' ? number << 10 : *unit == 'M' ? number << 20 : number;
}

std::size_t physical_memory() {
  const std::size_t bytes = size_value(proc_value("/proc/meminfo", "MemTotal"));
  return bytes == 0 ? kUnlimitedMemory : bytes;
}

/// 0 where neither the system nor a cgroup says how much there is.
std::uint64_t if_known(std::size_t bytes) { return bytes == kUnlimitedMemory ? 0 : bytes; }

std::vector<CacheInfo> caches() {
  std::vector<CacheInfo> list;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator("/sys/devices/system/cpu/cpu0/cache", error)) {
    if (!entry.path().filename().string().starts_with("index")) continue;
    list.push_back({static_cast<unsigned>(size_value(first_line(entry.path() / "level"))),
                    first_line(entry.path() / "type"),
                    size_value(first_line(entry.path() / "size"))});
  }
  std::ranges::sort(list, [](const CacheInfo& a, const CacheInfo& b) {
    return a.level != b.level ? a.level < b.level : a.type < b.type;
  });
  return list;
}

}  // namespace

std::string cpu_name() {
  const std::string name = proc_value("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown CPU" : name;
}

std::string machine_label() {
  return cpu_name() + ", " + counted(usable_cores(), "core") + ", " +
         std::string(kernels_in_use().isa);
}

MachineInfo this_machine(const CgroupTree& tree) {
  return {.cpu = cpu_name(),
          .cores = usable_cores(),
          .processors = static_cast<unsigned>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 0L)),
          .caches = caches(),
          .memory = if_known(std::min(physical_memory(), cgroup_memory_limit(tree))),
          .available = if_known(available_memory(tree))};
}

namespace {

Json limits_json(const Roofline& limits, unsigned threads) {
  return {{"threads", threads},
          {"read_gbytes_per_second", limits.read_gbytes},
          {"int8_gmac_per_second", limits.int8_gmacs},
          {"float32_gmac_per_second", limits.float_gmacs},
          {"bfloat16_gmac_per_second", limits.bf16_gmacs},
          {"int8_matrix_gmac_per_second", limits.matrix_gmacs}};
}

}  // namespace

Json cpu_json(bool measure) {
  const MachineInfo machine = this_machine();
  Json available = Json::array(), caches = available;
  for (const KernelSet* set : available_kernels()) available.push_back(set->isa);
  for (const CacheInfo& cache : machine.caches)
    caches.push_back({{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}});
  Json json = {{"available", available},
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

std::string roofline_text(const Roofline& limits) {
  std::string text = "read " + fixed(limits.read_gbytes, 1) + " GB/s";
  const auto add = [&](const char* name, double gmacs) {
    if (gmacs > 0) text += std::string(", ") + name + " " + fixed(gmacs, 1) + " GMAC/s";
  };
  add("int8 dot", limits.int8_gmacs);
  add("float32", limits.float_gmacs);
  add("bfloat16", limits.bf16_gmacs);
  add("int8 matrix unit", limits.matrix_gmacs);
  return text;
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
