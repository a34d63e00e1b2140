// What two model files differ in: metadata, tensors, values.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/report/value_check.h"

namespace cria::tools {

struct FileDifference {
  /// A key or tensor that is in one file only, or not the same in both; what: "only in A", "type
  /// F16 / Q4_K".
  struct Item {
    std::string name, what;
  };
  struct Values {
    std::string name;
    ValueDifference difference;
  };
  std::vector<Item> keys, tensors;
  std::vector<Values> values;          ///< tensors of one shape whose values differ
  std::uint64_t compared_tensors = 0;  ///< of one shape in both files

  [[nodiscard]] bool none() const { return keys.empty() && tensors.empty() && values.empty(); }
};

/// Compares everything, with progress on a terminal. The order of keys and tensors does not count.
/// Tensors whose data is missing in a file are told as such.
FileDifference compare_files(const GgufFile& a, const GgufFile& b);

std::string difference_text(const FileDifference& difference, const std::string& a,
                            const std::string& b);
nlohmann::ordered_json difference_json(const FileDifference& difference);

}  // namespace cria::tools
