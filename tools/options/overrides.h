// Options that replace what a model's file says of it.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/model.h"

namespace cria::tools {

struct OverrideOptions {
  std::vector<std::string> keys;  ///< KEY=TYPE:VALUE
  std::string rope_scaling;       ///< "": the file's
  std::optional<double> rope_factor, rope_base, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
  std::optional<std::int64_t> yarn_orig_ctx;
};

/// --override-kv, --rope-*, --yarn-*
void add_override_options(CLI::App& command, OverrideOptions& options);
/// What they ask for. Throws a usage error for a KEY=TYPE:VALUE that is none.
std::vector<MetadataOverride> metadata_overrides(const OverrideOptions& options);

}  // namespace cria::tools
