#include "engine/session/draft_control.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

namespace cria {
namespace {

constexpr double kShare = 1.0 / 80;  // share of the time that drafts may cost
constexpr double kMinBudget = -0.25, kInitialBudget = 1.5, kMaxBudget = 4;  // passes of one token
constexpr std::size_t kFirst = 3;   // initial passes without drafts: two outvote a slow one
constexpr std::size_t kPlain = 32;  // passes between two without drafts, the unit of measurement
constexpr std::size_t kMaxRejectedPasses =
    4;                             // passes without an accepted token, before a plain one
constexpr std::size_t kRetry = 8;  // passes between trials of doubted sizes
// Passes until a measurement is doubted: few after a surprise, four times the number after each
// confirmation.
constexpr std::size_t kMinTrust = 4, kTrust = 32, kMaxTrust = 1024;
constexpr std::array<double, 4> kPriorRight{4, 5, 6.8, 7.4};
constexpr double kPriorOf = 8;

// The time of the faster passes: load by other programs only ever slows passes down.
double lower_quartile(std::span<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

struct Occurrence {
  std::size_t agree = 0, end = 0;  // matching tokens; position after them
};

// Longest occurrence in `in`, before its end, of the end of `text`.
Occurrence longest_occurrence(std::span<const TokenId> text, std::span<const TokenId> in) {
  constexpr std::size_t kEnough = 32;  // longer matches give no better drafts
  Occurrence best;
  for (std::size_t end = in.size(); end-- > 1;) {
    if (in[end - 1] != text.back()) continue;
    const std::size_t most = std::min({end, text.size(), kEnough});
    std::size_t agree = 1;
    while (agree < most && in[end - 1 - agree] == text[text.size() - 1 - agree]) ++agree;
    if (agree > best.agree) best = {agree, end};
    if (agree == kEnough) break;
  }
  return best;
}

}  // namespace

std::size_t ngram_draft(std::span<const TokenId> text, std::span<const TokenId> expected,
                        std::size_t most, std::vector<TokenId>& draft) {
  constexpr std::size_t kLeast = 2;
  draft.clear();
  if (!expected.empty()) {
    if (const Occurrence found = longest_occurrence(text, expected); found.agree >= kLeast) {
      const auto rest = expected.subspan(found.end, std::min(most, expected.size() - found.end));
      draft.assign(rest.begin(), rest.end());
      return found.agree;
    }
  }
  const Occurrence found = longest_occurrence(text, text);
  if (found.agree < kLeast) return 0;
  for (std::size_t i = 0; i < most; ++i) {
    const std::size_t at = found.end + i;
    draft.push_back(at < text.size() ? text[at] : draft[at - text.size()]);
  }
  return found.agree;
}

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

// Interpolates between measured sizes; a pass never costs more than a larger one. Beyond them, a
// token costs the average so far, or little if nothing was measured, to encourage a trial. Now and
// then ignores measurements that are old.
void DraftControl::draw_curve() {
  const bool doubt = turn_ % kRetry == 0;
  std::size_t known = 1;
  double slope = 0.08, first = 0.2;  // cost per token; cost of having more than one
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

// Minimizes the total wait for a token: a draft shortens that of one answer, a longer pass
// lengthens that of all.
std::size_t DraftControl::length(std::size_t agree, Pass pass, double* waits) const {
  if (agree == 0 || turn_ < kFirst || since_plain_ >= kPlain ||
      since_accepted_ >= kMaxRejectedPasses || pass.tokens + kMaxDraft >= kSizes)
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

// Current seconds of a pass of one token, estimated from recent passes of other sizes; 0: unknown.
double DraftControl::unit_beside(std::size_t tokens) const {
  std::array<double, std::tuple_size_v<decltype(recent_)>> units{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < std::min(turn_, recent_.size()); ++i)
    if (recent_[i].tokens != tokens) units[n++] = recent_[i].seconds / curve_[recent_[i].tokens];
  return n == 0 ? 0 : lower_quartile(std::span(units).first(n));
}

// Returns the cost of this pass; limits one that is far above the expected cost.
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

// Updates the budget by the cost of the drafts and by the passes that accepted tokens save.
void DraftControl::passed(std::size_t certain, std::size_t answers, std::size_t drafted,
                          std::size_t accepted, double seconds) {
  const std::size_t tokens = certain + drafted;
  if (tokens >= kSizes) return spent(seconds);
  const double without = curve_[certain], with = measure(tokens, seconds);
  draw_curve();
  earn(kShare * with * (1 + (seconds > 0 ? other_seconds_ / seconds : 0)));
  other_seconds_ = 0;
  since_plain_ = drafted == 0 ? 0 : since_plain_ + 1;
  since_accepted_ = drafted == 0 || accepted != 0 ? 0 : since_accepted_ + 1;
  if (drafted != 0)
    earn(static_cast<double>(accepted) * without / static_cast<double>(answers) - (with - without));
}

void DraftControl::drafted_one(std::size_t agree, std::size_t drafted, std::size_t accepted) {
  if (agree == 0) return;
  Rate& rate = rates_[bucket(agree)];
  if (drafted == 0) {
    constexpr double kForgotten = 1.0 / 32;
    rate.right += (kPriorRight[bucket(agree)] - rate.right) * kForgotten;
    rate.of += (kPriorOf - rate.of) * kForgotten;
    return;
  }
  constexpr double kMemory = 64;  // draft tokens
  rate.right += static_cast<double>(accepted);
  rate.of += static_cast<double>(std::min(drafted, accepted + 1));
  if (rate.of > kMemory) rate = {rate.right * kMemory / rate.of, kMemory};
}

DraftChoice choose_draft(Answer& answer, DraftSource source, std::size_t most,
                         const DraftControl& control, DraftControl::Pass& pass,
                         std::vector<TokenId>& draft) {
  constexpr std::size_t kSure = 8;  // matching tokens that are surer than a prediction layer
  const Speculate mode = answer.options().speculate;
  if (mode == Speculate::Off || most == 0) return {};
  const bool measured = mode != Speculate::Lookup;
  const auto by_model = [&](std::size_t least) {
    const std::size_t n =
        std::min(most, std::max(least, control.length(kModelAgrees, pass, &pass.waits)));
    pass.tokens += n;
    return DraftChoice{kModelAgrees, n};
  };
  if (mode == Speculate::Layers) return by_model(1);
  if (measured && source == DraftSource::Model) return by_model(0);
  answer.draft_forced(most, draft);
  const std::size_t agree =
      draft.empty() ? ngram_draft(answer.text(), answer.expected(), most, draft) : kForcedAgrees;
  if (measured && source == DraftSource::Layers && agree < kSure) {
    draft.clear();
    return by_model(0);
  }
  if (measured) draft.resize(std::min(draft.size(), control.length(agree, pass, &pass.waits)));
  pass.tokens += draft.size();
  return {agree, 0};
}

}  // namespace cria
