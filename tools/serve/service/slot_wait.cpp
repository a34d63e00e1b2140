#include "tools/serve/service/slot_wait.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cria::serve {
namespace {

constexpr double kNews = 1.0 / 16;  // share of the last value in an average

void add_news(std::optional<double>& average, double value) {
  average = average ? *average + kNews * (value - *average) : value;
}

}  // namespace

void SlotWait::stepped(double seconds) { add_news(step_seconds_, seconds); }
void SlotWait::ended(std::size_t tokens) { add_news(tokens_, static_cast<double>(tokens)); }

double SlotWait::steps_left(const Scheduler::Progress& answer) const {
  auto tokens = static_cast<double>(answer.may_draw);
  if (tokens_) tokens = std::min(tokens, std::max(*tokens_, static_cast<double>(answer.drawn)));
  return tokens + static_cast<double>(answer.to_read) / static_cast<double>(prompt_tokens_);
}

int SlotWait::seconds(std::span<const Scheduler::Progress> running, std::size_t earlier) const {
  if (running.empty() || !step_seconds_) return 1;
  if (earlier >= running.size()) return kMost;
  std::vector<double> steps;
  for (const Scheduler::Progress& answer : running) steps.push_back(steps_left(answer));
  std::ranges::sort(steps);
  return static_cast<int>(
      std::clamp(std::ceil(steps[earlier] * *step_seconds_), 1.0, double{kMost}));
}

}  // namespace cria::serve
