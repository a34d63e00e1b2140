#include "tools/report/value_report.h"

#include <nlohmann/json.hpp>

#include "model/plural.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

nlohmann::ordered_json check_json(const std::vector<TensorValues>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TensorValues& tensor : all)
    if (!tensor.good())
      list.push_back({{"name", tensor.name},
                      {"nans", tensor.nans},
                      {"infinities", tensor.infinities},
                      {"first", tensor.missing ? nlohmann::ordered_json()
                                               : nlohmann::ordered_json(tensor.first_bad)},
                      {"missing", tensor.missing}});
  return list;
}

nlohmann::ordered_json statistics_json(const std::vector<TensorValues>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TensorValues& tensor : all)
    list.push_back({{"name", tensor.name},
                    {"type", name(tensor.dtype)},
                    {"values", tensor.values},
                    {"zeros", tensor.zeros},
                    {"min", tensor.min},
                    {"max", tensor.max},
                    {"mean", tensor.mean},
                    {"rms", tensor.rms}});
  return list;
}

std::string check_text(const std::vector<TensorValues>& all) {
  Table table({"tensor", "type", ">min", ">max", ">mean", ">rms", ">zeros"});
  std::string bad;
  std::size_t good = 0;
  for (const TensorValues& tensor : all) {
    if (!tensor.missing)
      table.add(
          {without_controls(tensor.name), std::string(name(tensor.dtype)), significant(tensor.min),
           significant(tensor.max), significant(tensor.mean), significant(tensor.rms),
           fixed(100 * static_cast<double>(tensor.zeros) / static_cast<double>(tensor.values), 2) +
               " %"});
    if (tensor.good()) {
      ++good;
      continue;
    }
    bad += without_controls(tensor.name) + ": ";
    bad += tensor.missing
               ? std::string("the file ends before its data")
               : std::to_string(tensor.nans) + " NaN, " + std::to_string(tensor.infinities) +
                     " infinite, the first at value " + std::to_string(tensor.first_bad);
    bad += "\n";
  }
  return table.text(stdout) + "\n" + bad + std::to_string(good) + " of " +
         counted(all.size(), "tensor") + (good == 1 ? " holds" : " hold") + " finite numbers\n";
}

}  // namespace cria::tools
