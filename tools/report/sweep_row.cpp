#include "tools/report/sweep_row.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace cria::tools {
namespace {

constexpr std::pair<const char*, Estimate SweepRow::*> kEstimates[] = {
    {"ppl", &SweepRow::ppl},           {"ppl_ratio", &SweepRow::ratio}, {"kld", &SweepRow::kld},
    {"same_top", &SweepRow::same_top}, {"pp", &SweepRow::prompt},       {"tg", &SweepRow::decode}};

}  // namespace

nlohmann::ordered_json to_json(const SweepRow& row) {
  nlohmann::ordered_json object = {{"name", row.name},
                                   {"dtype", row.dtype},
                                   {"file_bytes", row.file_bytes},
                                   {"read_bytes", row.read_bytes},
                                   {"bits_per_weight", row.bits_per_weight}};
  for (const auto& [name, member] : kEstimates) {
    object[name] = (row.*member).value;
    object[std::string(name) + "_stderr"] = (row.*member).error;
  }
  if (!row.error.empty()) object["error"] = row.error;
  return object;
}

SweepRow sweep_row(const nlohmann::ordered_json& object) {
  SweepRow row;
  object.at("name").get_to(row.name);
  object.at("dtype").get_to(row.dtype);
  object.at("file_bytes").get_to(row.file_bytes);
  object.at("read_bytes").get_to(row.read_bytes);
  object.at("bits_per_weight").get_to(row.bits_per_weight);
  for (const auto& [name, member] : kEstimates) {
    object.at(name).get_to((row.*member).value);
    object.at(std::string(name) + "_stderr").get_to((row.*member).error);
  }
  return row;
}

}  // namespace cria::tools
