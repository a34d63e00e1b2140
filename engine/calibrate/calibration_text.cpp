#include "engine/calibrate/calibration_text.h"

#include <algorithm>

#include "engine/model_parts.h"
#include "engine/session.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr std::size_t kTokensPerColumn = 43, kMaxTokens = 131'072;

std::size_t default_tokens(const Model& model) {
  std::size_t widest = 0;
  for (const Node& node : model.graph().nodes)
    for (const Matrix& m : node.matrices)
      if (m.multiplies()) widest = std::max<std::size_t>(widest, m.weight.cols());
  return std::min(kTokensPerColumn * widest, kMaxTokens);
}

}  // namespace

CalibrationTokens calibration_tokens(const Model& model, std::span<const std::string> texts,
                                     std::span<const std::string> names, std::size_t max_tokens) {
  CalibrationTokens tokens;
  tokens.window = std::min<std::size_t>(tokens.window, model.context_length());
  const Vocabulary& vocabulary = model.vocabulary();
  const std::size_t own = vocabulary.bos ? tokens.window - 1 : tokens.window;
  std::vector<std::vector<TokenId>> ids;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    ids.push_back(model.tokenizer().encode(texts[i], false, false));
    if (ids.back().size() < own)
      throw Error(names[i], "the text is too short: expected at least " + counted(own, "token") +
                                ", got " + std::to_string(ids.back().size()));
    longest = std::max(longest, ids.back().size() / own);
  }
  const std::size_t wanted = max_tokens != 0 ? max_tokens : default_tokens(model);
  const std::size_t windows = std::max<std::size_t>(wanted / tokens.window, 1);
  for (std::size_t w = 0; w < longest; ++w) {
    for (const std::vector<TokenId>& text : ids) {
      if ((w + 1) * own > text.size() || tokens.windows() == windows) continue;
      if (vocabulary.bos) tokens.ids.push_back(*vocabulary.bos);
      const auto begin = text.begin() + static_cast<std::ptrdiff_t>(w * own);
      tokens.ids.insert(tokens.ids.end(), begin, begin + static_cast<std::ptrdiff_t>(own));
    }
  }
  return tokens;
}

std::string own_text(const Model& model, std::size_t windows, unsigned threads) {
  const Vocabulary& vocabulary = model.vocabulary();
  const auto window =
      static_cast<std::uint32_t>(std::min<std::size_t>(512, model.context_length()));
  EngineOptions options;
  options.n_ctx = window;
  options.threads = threads;
  Session session(model, options);
  const std::vector<TokenId> prompt{vocabulary.bos.value_or(0)};
  std::string text;
  for (std::size_t w = 0; w < windows; ++w) {
    GenerateOptions how;
    how.sampler.temperature = 1;
    how.sampler.top_k = 0;
    how.sampler.top_p = 1;
    how.sampler.min_p = 0;
    how.sampler.seed = w;
    how.ignore_eos = true;
    how.max_tokens = window - 1;
    session.truncate(0);
    session.generate(prompt, how, [&](std::string_view piece) {
      text += piece;
      return true;
    });
    text += '\n';
  }
  return text;
}

}  // namespace cria
