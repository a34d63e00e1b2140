#include "engine/session/pooling.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace cria {

void PooledStates::add(std::span<const float> rows) {
  assert(rows.size() % sum_.size() == 0);
  for (; !rows.empty(); rows = rows.subspan(sum_.size())) {
    for (std::size_t i = 0; i < sum_.size(); ++i)
      sum_[i] = pooling_ == Pooling::Mean ? sum_[i] + double{rows[i]} : double{rows[i]};
  }
}

// Their number does not matter: the length becomes 1.
std::vector<float> PooledStates::unit() const {
  const double length = std::sqrt(std::inner_product(sum_.begin(), sum_.end(), sum_.begin(), 0.0));
  std::vector<float> out(sum_.size());
  if (length > 0)
    std::ranges::transform(sum_, out.begin(),
                           [&](double x) { return static_cast<float>(x / length); });
  return out;
}

std::vector<std::vector<float>> embed(Engine& engine, std::span<const std::vector<TokenId>> prompts,
                                      Pooling pooling, std::uint64_t scope) {
  std::vector<std::vector<float>> vectors(prompts.size());
  std::optional<Error> failed;
  Scheduler scheduler(engine);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    AnswerRequest request;
    request.prompt = prompts[i];
    request.embedding = pooling;
    request.scope = scope;
    request.on_end = [&vector = vectors[i], &failed](GenerateResult result,
                                                     const std::optional<Error>& error) {
      if (error && !failed) failed = error;
      vector = std::move(result.embedding);
    };
    scheduler.add(std::move(request));
  }
  while (!failed && scheduler.step()) continue;
  if (failed) throw *failed;
  return vectors;
}

}  // namespace cria
