// What check_values() found, as text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/report/value_check.h"

namespace cria::tools {

/// A table of the statistics, then the tensors that hold NaN or infinities, then how many hold
/// none.
std::string check_text(const std::vector<TensorValues>& all);
/// The tensors that are not good.
nlohmann::ordered_json check_json(const std::vector<TensorValues>& all);
/// The statistics of all.
nlohmann::ordered_json statistics_json(const std::vector<TensorValues>& all);

}  // namespace cria::tools
