// The text that a model is calibrated with, in windows.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/calibrate/layer_stream.h"

namespace cria {

/// A text by its name, which errors give; no text: what the model writes itself.
struct CalibrationText {
  std::string name;
  std::optional<std::string> text;
};

// A model can write the text itself: prose from BOS, and dialogues by its chat template, in which
// it also asks the questions (Xu et al. 2024, "Magpie").

struct OwnTextOptions {
  std::size_t window = 512;  ///< tokens of each
  unsigned threads = 1;
  const KernelSet* kernels = nullptr;  ///< null: kernels_in_use()
  /// Called now and then with the number of tokens; false stops.
  std::function<bool(std::size_t tokens)> on_progress = {};
};

/// Returns n windows of tokens, at temperature 1 and with fixed seeds: the same tokens each time.
/// Every other one has dialogues if the model has a chat template that renders them; the others
/// begin with BOS. Empty if on_progress stopped it.
std::vector<std::vector<TokenId>> own_windows(const Model& model, std::size_t n,
                                              const OwnTextOptions& options);

/// Windows of several texts in turn, so that each counts the same however long it is; a text that
/// ends is left out from there on, the model's own after 64 windows. Every window of a text begins
/// with BOS if the vocabulary has one. max_tokens: at most this many, at least one window; 0: 128
/// for each column of the model's widest matrix, but at most 131,072. own: its window is not used.
/// Throws Error for a text that is shorter than a window, naming it. Empty if own.on_progress
/// stopped it.
CalibrationTokens calibration_tokens(const Model& model, std::span<const CalibrationText> texts,
                                     std::size_t max_tokens, OwnTextOptions own);

}  // namespace cria
