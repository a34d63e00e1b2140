// The rows of `cria sweep`, one per file, as table, plots and advice.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/evaluate/divergence.h"

namespace cria::tools {

struct SweepRow {
  std::string name;              ///< the file's, without ".gguf"
  std::string dtype;             ///< the type most weights have
  std::uint64_t file_bytes = 0;  ///< memory for the weights
  std::uint64_t read_bytes = 0;  ///< weights that one decoded token reads
  double bits_per_weight = 0;
  Estimate ppl;
  Estimate ratio{1, 0};  ///< ratio of perplexities to the reference's, token by token
  Estimate kld, same_top{1, 0};
  Estimate prompt, decode;  ///< tokens per second; error: of the mean
  std::string error;        ///< the error of a failed measurement, or ""
};

nlohmann::ordered_json to_json(const SweepRow& row);
/// Throws nlohmann::json::exception for what to_json() did not write.
SweepRow sweep_row(const nlohmann::ordered_json& object);

/// The machine and the text of the measurement.
struct SweepMachine {
  std::string model;  ///< the base's name
  std::string cpu, isa;
  unsigned threads = 0;
  double read_gbytes = 0;       ///< streaming read, GB/s
  std::uint64_t available = 0;  ///< memory that the system would give, bytes
  std::string text;             ///< "wiki.test.raw, 40 windows of 512 tokens"
};

/// The recommended row; nullopt if no file fits into memory.
struct SweepChoice {
  std::optional<std::size_t> best;  ///< index of the row
  std::vector<std::size_t>
      alike;  ///< rows that the error does not tell from the best by what decided, it among them
  std::size_t candidates = 0;  ///< rows that fit and lose at most 1 % of perplexity
};
/// Chooses among rows that fit into memory and lose at most 1 % of perplexity: the fastest in
/// decoding within the error, then the smallest file. If none loses so little, perplexity decides.
SweepChoice sweep_choice(const std::vector<SweepRow>& rows, const SweepMachine& machine);
/// The choice and why, in a sentence or two.
std::string sweep_advice(const std::vector<SweepRow>& rows, const SweepMachine& machine);

/// A table for a terminal of `columns` (0: unlimited), and the advice.
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
