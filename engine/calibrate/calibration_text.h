// The text that a model is calibrated with, in windows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/calibrate/layer_stream.h"
#include "engine/calibrate/own_text.h"

namespace cria {

/// A text by its name, which errors give; no text: what the model writes itself.
struct CalibrationText {
  std::string name;
  std::optional<std::string> text;
};

/// Windows of several texts in turn, so that each counts the same however long it is; a text that
/// ends is left out from there on, the model's own after 64 windows. Every window of a text begins
/// with BOS if the vocabulary has one. max_tokens: at most this many, at least one window; 0: 43
/// for each column of the model's widest matrix, but at most 131,072. own: its window is not used.
/// Throws Error for a text that is shorter than a window, naming it. Empty if own.on_progress
/// stopped it.
CalibrationTokens calibration_tokens(const Model& model, std::span<const CalibrationText> texts,
                                     std::size_t max_tokens, OwnTextOptions own);

}  // namespace cria
