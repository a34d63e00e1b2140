// The text that a model is calibrated with, in windows.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/calibrate/layer_stream.h"

namespace cria {

/// Windows of several texts in turn, so that each counts the same however long it is; a text that
/// ends is left out from there on. Every window begins with BOS if the vocabulary has one.
/// max_tokens: at most this many, at least one window; 0: 43 for each column of the model's widest
/// matrix, but at most 131,072. Throws Error for a text that is shorter than a window, naming it.
/// names: of the texts, for errors.
CalibrationTokens calibration_tokens(const Model& model, std::span<const std::string> texts,
                                     std::span<const std::string> names, std::size_t max_tokens);

/// A text that the model writes itself, from BOS, at temperature 1 and with fixed seeds: it is as
/// the model expects texts to be, of whatever kind. The same bytes each time.
std::string own_text(const Model& model, std::size_t windows, unsigned threads);

}  // namespace cria
