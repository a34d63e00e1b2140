// The measurements of `cria sweep`: size, perplexity, divergence from the base, speed.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "engine/evaluate/perplexity.h"
#include "tools/commands/sweep_report.h"
#include "tools/options/model.h"

namespace cria::tools {

struct SweepOptions {
  ModelOptions model;  ///< the base
  std::vector<std::string> files, types;
  std::string text, directory, imatrix;
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
