// The table, the plots and the advice of `cria sweep`.
#pragma once

#include <string>
#include <vector>

#include "tools/sweep_row.h"

namespace cria::tools {

/// Where and how it was measured.
struct SweepMachine {
  std::string cpu, isa;
  unsigned threads = 0;
  double read_gbytes = 0;       ///< streaming read, GB/s
  std::uint64_t available = 0;  ///< memory that the system would give, bytes
  std::string text;             ///< "wiki.test.raw, 40 windows of 512 tokens"
};

/// What to run here, and why: the fastest to decode of those that fit into memory and lose at most 1 % of
/// perplexity; where none does, the most exact that fits.
std::string sweep_advice(const std::vector<SweepRow>& rows, const SweepMachine& machine);

std::string sweep_markdown(const std::vector<SweepRow>& rows, const SweepMachine& machine);
std::string sweep_csv(const std::vector<SweepRow>& rows);
std::string sweep_json(const std::vector<SweepRow>& rows, const SweepMachine& machine);
/// Perplexity against the file's size / decoding speed against the bytes read per token, below the roofline.
std::string sweep_perplexity_svg(const std::vector<SweepRow>& rows, const SweepMachine& machine);
std::string sweep_speed_svg(const std::vector<SweepRow>& rows, const SweepMachine& machine);

}  // namespace cria::tools
