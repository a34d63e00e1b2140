// The models that `cria serve` may load, and how each is loaded.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/cli/flag.h"
#include "tools/options/conversation.h"
#include "tools/options/model.h"
#include "tools/serve/models/model_pool.h"

namespace cria::tools {

/// Returns seconds as milliseconds, rounded.
std::chrono::milliseconds milliseconds(double seconds);

/// Flags of the models of a server.
struct ServeModels {
  ModelOptions model;  ///< of each model, except `model.model`, which names the default one
  SamplingOptions sampling;
  Words places;  ///< --models
  std::string alias, chat_template, tool_format, pooling;
  std::size_t max_loaded = 0, memory_mib = 0;  ///< 0: any number; three quarters of the memory
  double idle = 300;                           ///< seconds; 0: never
  bool strict = false;

  std::size_t slots = 4, queue = 64, prefill_chunk = 128, cache_mib = 512;
  double request_timeout = 600;

  /// --models and its kind.
  Flags flags();
  /// Loads the model, or makes a list of those that are loaded on demand. Throws UsageError for a
  /// list that is empty or has a name twice, else what loading throws. The metrics must outlive the
  /// pool, this need not.
  [[nodiscard]] std::unique_ptr<serve::ModelPool> pool(serve::Metrics& metrics) const;
};

}  // namespace cria::tools
