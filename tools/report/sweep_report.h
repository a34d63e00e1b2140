// The table, the plots and the advice of `cria sweep`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/report/sweep_row.h"

namespace cria::tools {

/// Where and how it was measured.
struct SweepMachine {
  std::string model;  ///< the base's name
  std::string cpu, isa;
  unsigned threads = 0;
  double read_gbytes = 0;       ///< streaming read, GB/s
  std::uint64_t available = 0;  ///< memory that the system would give, bytes
  std::string text;             ///< "wiki.test.raw, 40 windows of 512 tokens"
};

/// Which row to run here; none where nothing fits into memory.
struct SweepChoice {
  std::optional<std::size_t> best;  ///< index of the row
  std::vector<std::size_t>
      alike;  ///< rows that the error does not tell from the best by what decided, it among them
  std::size_t candidates = 0;  ///< rows that fit and lose at most 1 % of perplexity
};
/// Of the rows that fit into memory and lose at most 1 % of perplexity those that decode fastest,
/// within the error, and of them the smallest file; where none loses so little, likewise by
/// perplexity.
SweepChoice sweep_choice(const std::vector<SweepRow>& rows, const SweepMachine& machine);
/// The choice and why, in a sentence or two.
std::string sweep_advice(const std::vector<SweepRow>& rows, const SweepMachine& machine);

/// A table for a terminal of so many columns (0: as wide as it needs), and the advice.
std::string sweep_text(const std::vector<SweepRow>& rows, const SweepMachine& machine,
                       std::size_t columns);
std::string sweep_markdown(const std::vector<SweepRow>& rows, const SweepMachine& machine);
std::string sweep_csv(const std::vector<SweepRow>& rows);
std::string sweep_json(const std::vector<SweepRow>& rows, const SweepMachine& machine);
/// Perplexity against the file's size / decoding speed against the bytes read per token, below the
/// roofline.
std::string sweep_perplexity_svg(const std::vector<SweepRow>& rows, const SweepMachine& machine);
std::string sweep_speed_svg(const std::vector<SweepRow>& rows, const SweepMachine& machine);

}  // namespace cria::tools
