// How an answer is drawn and where it ends, from the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "engine/session.h"

namespace cria::tools {

struct SamplingOptions {
  GenerateOptions generate;
  std::vector<std::string> biases;  ///< ID+BIAS, ID-BIAS as written

  void add_to(CLI::App& command);
  /// What the answer has to be: --json-schema, --grammar, --regex.
  void add_constraint_to(CLI::App& command);
  /// The options with a seed drawn where none was given, so that it can be told. Throws a usage
  /// error for a bad --logit-bias.
  [[nodiscard]] GenerateOptions resolve() const;
  /// Sets what the model's file says of sampling (general.sampling.*), but for what the command
  /// line says. After parsing. Throws Error for a value that cannot be.
  void follow(const GgufFile& file, SamplerOptions& sampler) const;

 private:
  const CLI::App* command_ = nullptr;
};

}  // namespace cria::tools
