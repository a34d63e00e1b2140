// What a model file is, in a few lines: parameters, bits per weight, types, how its answers are
// drawn.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "model/gguf/gguf.h"

namespace cria::tools {

/// Counts over all tensors of a file.
struct FileSummary {
  /// Of one dtype.
  struct OfType {
    std::uint64_t tensors = 0, bytes = 0;
  };
  std::uint64_t parameters = 0, bytes = 0;
  std::map<std::string_view, OfType> types;  ///< by the dtype's name

  explicit FileSummary(const GgufFile& file);
  [[nodiscard]] double bits_per_weight() const;  ///< 0 without tensors
  [[nodiscard]] std::string_view largest_type()
      const;  ///< the dtype with the most bytes; "" without tensors
};

nlohmann::ordered_json summary_json(const GgufFile& file);
std::string summary_text(const GgufFile& file);

}  // namespace cria::tools
