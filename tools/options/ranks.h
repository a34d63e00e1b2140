// The options of commands that several ranks can run.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace cria::tools {

struct RankOptions {
  std::string shares;  ///< "": equal
  double timeout = 0;  ///< in seconds; 0: the usual

  /// --shares, --rank-timeout
  void add_to(CLI::App& command);
  /// Before a model is loaded. threads: those of the model; 0: each rank's default. Throws Error
  /// for what cannot be, and where there are no other ranks.
  void apply(std::uint32_t threads) const;
};

}  // namespace cria::tools
