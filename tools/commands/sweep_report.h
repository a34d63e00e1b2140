// \`cria sweep\`: its measurements and their report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/evaluate/divergence.h"
#include "engine/evaluate/perplexity.h"
#include "model/file/json.h"
#include "tools/commands/quantize_job.h"
#include "tools/options/model.h"

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
  std::string command;      ///< the command that makes the file; "": it existed
  std::string error;        ///< the error of a failed measurement, or ""
};

Json to_json(const SweepRow& row);
/// Throws Json::exception for what to_json() did not write.
SweepRow sweep_row(const Json& object);

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

struct SweepOptions {
  ModelOptions model;  ///< the base
  std::vector<std::string> files, types, sizes;
  QuantizeSources sources;  ///< inputs for types and sizes
  std::string text, directory;
  PerplexityOptions windows{.window = 512, .stride = 0, .max_windows = 40};
  std::size_t prompt = 512, decode = 64;
  unsigned repetitions = 3;
  bool allow_requantize = false, keep = false, json = false;

  /// The path of a file in the directory.
  [[nodiscard]] std::string path(const std::string& file) const;
};

/// Measures one model after the other. Resumes from states in the directory, which also holds the
/// base's predictions. options and base must outlive it.
class SweepMeasurer {
 public:
  /// text: what is evaluated, and what the timed prompts are taken from.
  SweepMeasurer(const SweepOptions& options, const Model& base, std::vector<TokenId> text)
      : options_(options), base_(base), text_(std::move(text)) {}

  /// Shows progress. Throws Interrupted at Ctrl-C.
  [[nodiscard]] SweepRow measure(const std::string& name, const Model& model) const;

  [[nodiscard]] const std::vector<TokenId>& text() const { return text_; }
  /// The file of the base's predictions.
  [[nodiscard]] std::string base_logits() const { return options_.path("base.logits"); }

 private:
  [[nodiscard]] bool has_base_logits() const;
  void write_base_logits() const;
  void evaluate(Perplexity& perplexity, const std::string& name, const std::string& state) const;
  void measure_quality(SweepRow& row, const Model& model) const;
  void measure_speed(SweepRow& row, const Model& model) const;

  const SweepOptions& options_;
  const Model& base_;
  const std::vector<TokenId> text_;
};

}  // namespace cria::tools
