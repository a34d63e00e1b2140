// What `cria sweep` measured of one file.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/evaluate/divergence.h"

namespace cria::tools {

struct SweepRow {
  std::string name;              ///< the file's, without ".gguf"
  std::string dtype;             ///< the type most weights have
  std::uint64_t file_bytes = 0;  ///< memory for the weights
  std::uint64_t read_bytes = 0;  ///< of weights that one decoded token reads
  double bits_per_weight = 0;
  Estimate ppl;
  Estimate ratio{1, 0};  ///< of perplexities, to the base, token by token
  Estimate kld, same_top{1, 0};
  Estimate prompt, decode;  ///< tokens per second; error: of the mean
  std::string error;        ///< why there are no figures, or ""
};

nlohmann::ordered_json to_json(const SweepRow& row);
/// Throws nlohmann::json::exception for what to_json() did not write.
SweepRow sweep_row(const nlohmann::ordered_json& object);

}  // namespace cria::tools
