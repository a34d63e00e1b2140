// Flags of how an answer is sampled, what ends it, and what form it has.
#pragma once

#include <string>

#include "engine/session.h"
#include "tools/cli/flag.h"

namespace cria::tools {

struct SamplingOptions {
  GenerateOptions generate;
  Words biases;                      ///< ID+BIAS or ID-BIAS, as typed
  const Command* command = nullptr;  ///< its given flags override the model's file

  /// The options of a sampler (kSamplerOptions), --max-tokens, --stop and --ignore-eos.
  Flags flags();
  /// --json-schema, --grammar, --regex
  Flags constraint_flags();
  /// Returns the options, with a random seed if none was given, so that it can be shown. Throws
  /// UsageError for a bad --logit-bias.
  [[nodiscard]] GenerateOptions resolve() const;
  /// Sets the options that the model's file has (general.sampling.*) and no flag sets. Call it
  /// after parsing. Throws Error for a value out of range.
  void follow(const GgufFile& file, SamplerOptions& sampler) const;
};

}  // namespace cria::tools
