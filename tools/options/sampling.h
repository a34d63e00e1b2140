// Options of the command line: how an answer is sampled, what ends it, and what form it has.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "engine/session.h"

namespace cria::tools {

struct SamplingOptions {
  GenerateOptions generate;
  std::vector<std::string> biases;  ///< ID+BIAS or ID-BIAS, as typed

  /// Declares the options of a sampler (kSamplerOptions), --max-tokens, --stop and --ignore-eos.
  void add_to(CLI::App& command);
  /// Declares --json-schema, --grammar and --regex.
  void add_constraint_to(CLI::App& command);
  /// Returns the options, with a random seed if none was given, so that it can be shown. Throws a
  /// usage error for a bad --logit-bias.
  [[nodiscard]] GenerateOptions resolve() const;
  /// Sets the options that the model's file has (general.sampling.*) and the command line does not
  /// set. Call it after parsing. Throws Error for a value out of range.
  void follow(const GgufFile& file, SamplerOptions& sampler) const;

 private:
  const CLI::App* command_ = nullptr;
};

}  // namespace cria::tools
