#include "engine/session/draft_control.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

namespace cria {
namespace {

constexpr double kShare = 1.0 / 64;  // of the time, for guesses that may be wrong
constexpr double kMinBudget = -0.25, kInitialBudget = 0.5,
                 kMaxBudget = 4;  // in passes of one token
constexpr std::size_t kFirst =
    3;  // passes without guesses at first, which outvote a slow one of them
constexpr std::size_t kPlain =
    32;  // passes from one without guesses, which all are measured by, to the next
constexpr std::size_t kMaxRejectedPasses = 4;  // passes of wrong guesses, before one without
constexpr std::size_t kRetry = 8;  // passes from one trial of what seems dear to the next
// Passes after which a measurement is doubted: few where it surprises, four times as many once it
// is confirmed.
constexpr std::size_t kMinTrust = 4, kTrust = 32, kMaxTrust = 1024;
constexpr std::array<double, 4> kPriorRight{2, 3, 3.4, 3.7};
constexpr double kPriorOf = 4;

// A machine is disturbed more often than it hurries: what the faster passes took.
double lower_quartile(std::span<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

DraftControl::DraftControl() : budget_(kInitialBudget) {
  for (std::size_t i = 0; i < rates_.size(); ++i) rates_[i] = {kPriorRight[i], kPriorOf};
  measured_[1].add(1, 1);
  draw_curve();
}

void DraftControl::Measured::add(double value, double expected) {
  const bool surprises = std::abs(value - expected) > expected / 4;
  trust = surprises ? kMinTrust : std::min(std::max(4 * trust, kTrust), kMaxTrust);
  last[count++ % last.size()] = value;
}

double DraftControl::Measured::cost() const {
  return *std::min_element(
      last.begin(), last.begin() + static_cast<std::ptrdiff_t>(std::min(count, last.size())));
}

// Between sizes that were measured, in proportion, and never more than a larger one. Beyond them a
// token costs what it does on average up to there; before any was measured, little: whoever tries
// learns. Now and then without what has not been measured for long.
void DraftControl::draw_curve() {
  const bool doubt = turn_ % kRetry == 0;
  std::size_t known = 1;
  double slope = 0.08, first = 0.2;  // for a token; for more than one at all
  curve_[1] = 1;
  for (std::size_t n = 2; n < kSizes; ++n) {
    const Measured& here = measured_[n];
    if (here.count == 0 || (doubt && turn_ - here.turn > here.trust)) continue;
    const double before = curve_[known], cost = std::max(here.cost(), 1.0);
    for (std::size_t i = known + 1; i <= n; ++i)
      curve_[i] = before +
                  (cost - before) * static_cast<double>(i - known) / static_cast<double>(n - known);
    slope = std::max(0.08, (cost - 1) / static_cast<double>(n - 1));
    first = 0;
    known = n;
  }
  for (std::size_t i = known + 1; i < kSizes; ++i)
    curve_[i] = curve_[known] + first + slope * static_cast<double>(i - known);
  reach_ = 2 * known;
  for (std::size_t n = kSizes - 1; n-- > 1;) curve_[n] = std::min(curve_[n], curve_[n + 1]);
}

// The seconds that each waits for a token, together: a guess shortens those of one answer, a longer
// pass lengthens all.
std::size_t DraftControl::length(std::size_t agree, Pass pass, double* waits) const {
  if (agree == 0 || turn_ < kFirst || since_plain_ >= kPlain || since_kept_ >= kMaxRejectedPasses ||
      pass.tokens + kMaxDraft >= kSizes)
    return 0;
  const Rate& rate = rates_[bucket(agree)];
  const double right = rate.right / rate.of, allowed = curve_[pass.certain] + budget_;
  std::size_t best = 0;
  double best_wait = pass.waits * curve_[pass.tokens], tokens = 1, chance = 1;
  for (std::size_t n = 1; n <= kMaxDraft && pass.tokens + n <= reach_; ++n) {
    chance *= right;
    tokens += chance;
    const double cost = curve_[pass.tokens + n], all = pass.waits - 1 + 1 / tokens;
    if (all * cost >= best_wait || cost > allowed) continue;
    best = n;
    best_wait = all * cost;
    if (waits != nullptr) *waits = all;
  }
  return best;
}

// Seconds of a pass of one token now, by the latest passes of other sizes; 0: there are none.
double DraftControl::unit_beside(std::size_t tokens) const {
  std::array<double, std::tuple_size_v<decltype(recent_)>> units{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < std::min(turn_, recent_.size()); ++i)
    if (recent_[i].tokens != tokens) units[n++] = recent_[i].seconds / curve_[recent_[i].tokens];
  return n == 0 ? 0 : lower_quartile(std::span(units).first(n));
}

// The cost of this pass. One that is far above what was expected is not believed at once.
double DraftControl::measure(std::size_t tokens, double seconds) {
  const double expected = curve_[tokens], unit = unit_beside(tokens);
  recent_[turn_ % recent_.size()] = {tokens, seconds};
  measured_[tokens].turn = ++turn_;
  if (unit == 0 || tokens == 1) return expected;
  const double cost =
      std::clamp(seconds / unit, (1 + expected) / 2, 1.25 * static_cast<double>(tokens));
  Measured& known = measured_[tokens];
  known.add(cost, known.count == 0 ? expected : known.cost());
  return std::min(cost, 1.25 * expected);
}

void DraftControl::earn(double units) {
  budget_ = std::clamp(budget_ + units, kMinBudget, kMaxBudget);
}

// What drafts have cost, and that each token kept is a part of a pass that is not needed.
void DraftControl::passed(std::size_t certain, std::size_t answers, std::size_t drafted,
                          std::size_t kept, double seconds) {
  const std::size_t tokens = certain + drafted;
  if (tokens >= kSizes) return spent(seconds);
  const double without = curve_[certain], with = measure(tokens, seconds);
  draw_curve();
  earn(kShare * with * (1 + (seconds > 0 ? other_seconds_ / seconds : 0)));
  other_seconds_ = 0;
  since_plain_ = drafted == 0 ? 0 : since_plain_ + 1;
  since_kept_ = drafted == 0 || kept != 0 ? 0 : since_kept_ + 1;
  if (drafted != 0)
    earn(static_cast<double>(kept) * without / static_cast<double>(answers) - (with - without));
}

void DraftControl::guessed(std::size_t agree, std::size_t drafted, std::size_t kept) {
  if (agree == 0) return;
  Rate& rate = rates_[bucket(agree)];
  if (drafted == 0) {
    constexpr double kForgotten = 1.0 / 32;
    rate.right += (kPriorRight[bucket(agree)] - rate.right) * kForgotten;
    rate.of += (kPriorOf - rate.of) * kForgotten;
    return;
  }
  constexpr double kMemory = 64;  // guesses
  rate.right += static_cast<double>(kept);
  rate.of += static_cast<double>(std::min(drafted, kept + 1));
  if (rate.of > kMemory) rate = {rate.right * kMemory / rate.of, kMemory};
}

}  // namespace cria
