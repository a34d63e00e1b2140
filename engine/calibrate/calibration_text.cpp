#include "engine/calibrate/calibration_text.h"

#include <algorithm>

#include "engine/model_parts.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr std::size_t kTokensPerColumn = 128, kMaxTokens = 131'072;
constexpr std::size_t kOwnWindows = 64;  // of text that the model writes

std::size_t default_tokens(const Model& model) {
  std::size_t widest = 0;
  for (const Node& node : model.graph().nodes)
    for (const Matrix& m : node.matrices)
      if (m.multiplies()) widest = std::max<std::size_t>(widest, m.weight.cols());
  return std::min(kTokensPerColumn * widest, kMaxTokens);
}

// A text in windows, of which the first `taken` are used.
struct Windows {
  std::vector<std::vector<TokenId>> windows;
  std::size_t count = 0, taken = 0;
};

Windows windows_of(const Model& model, const CalibrationText& text, std::size_t window) {
  if (!text.text) return {{}, kOwnWindows};
  const Vocabulary& vocabulary = model.vocabulary();
  const std::size_t own = vocabulary.bos ? window - 1 : window;
  const std::vector<TokenId> ids = model.tokenizer().encode(*text.text, false, false);
  if (ids.size() < own)
    throw Error(text.name, "the text is too short: expected at least " + counted(own, "token") +
                               ", got " + std::to_string(ids.size()));
  Windows windows{{}, ids.size() / own};
  for (std::size_t w = 0; w < windows.count; ++w) {
    std::vector<TokenId>& one = windows.windows.emplace_back();
    if (vocabulary.bos) one.push_back(*vocabulary.bos);
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(w * own);
    one.insert(one.end(), begin, begin + static_cast<std::ptrdiff_t>(own));
  }
  return windows;
}

}  // namespace

CalibrationTokens calibration_tokens(const Model& model, std::span<const CalibrationText> texts,
                                     std::size_t max_tokens, OwnTextOptions own) {
  CalibrationTokens tokens;
  tokens.window = std::min<std::size_t>(tokens.window, model.context_length());
  std::vector<Windows> all;
  std::size_t longest = 0;
  for (const CalibrationText& text : texts) {
    all.push_back(windows_of(model, text, tokens.window));
    longest = std::max(longest, all.back().count);
  }
  std::size_t left = std::max<std::size_t>(
      (max_tokens != 0 ? max_tokens : default_tokens(model)) / tokens.window, 1);
  for (std::size_t w = 0; w < longest; ++w) {
    for (Windows& one : all) {
      if (w >= one.count || left == 0) continue;
      ++one.taken;
      --left;
    }
  }
  own.window = tokens.window;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].text || all[i].taken == 0) continue;
    all[i].windows = own_windows(model, all[i].taken, own);
    if (all[i].windows.empty()) return tokens;
  }
  for (std::size_t w = 0; w < longest; ++w)
    for (const Windows& one : all)
      if (w < one.taken)
        tokens.ids.insert(tokens.ids.end(), one.windows[w].begin(), one.windows[w].end());
  return tokens;
}

}  // namespace cria
