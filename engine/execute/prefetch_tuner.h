// Which way of fetching weights is the fastest here and now.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <span>

#include "kernels/kernels.h"

namespace cria {

/// Tries the ways of a kernel set in turn, a few passes of one token each, and keeps to the fastest
/// for a while: processors differ in what they want, and virtual ones move while a process runs.
/// Results do not depend on it.
class FetchChoice {
 public:
  /// ways: KernelSet::fetches, which must outlive this.
  explicit FetchChoice(std::span<const FetchAhead> ways)
      : ways_(ways.first(std::min(ways.size(), kMost))) {
    try_first();
  }

  /// For the next pass.
  [[nodiscard]] FetchAhead now() const { return ways_.empty() ? FetchAhead::Far : ways_[way_]; }
  /// That pass has taken so long. The shortest of a way's passes counts: others were disturbed.
  void took(double seconds) {
    if (ways_.size() < 2) return;
    least_[way_] = std::min(least_[way_], seconds);
    if (--left_ != 0) return;
    if (!trying_) return try_first();
    if (way_ + 1 < ways_.size()) {
      ++way_;
      left_ = kTried;
      return;
    }
    trying_ = false;
    way_ = static_cast<std::size_t>(
        std::min_element(least_.begin(), least_.begin() + ways_.size()) - least_.begin());
    left_ = kKept;
  }

  static constexpr std::size_t kTried = 3,
                               kKept = 128;  ///< passes: of each way, and of the fastest after them

 private:
  static constexpr std::size_t kMost = 4;

  void try_first() {
    trying_ = true;
    way_ = 0;
    left_ = kTried;
    least_.fill(std::numeric_limits<double>::infinity());
  }

  std::span<const FetchAhead> ways_;
  std::array<double, kMost> least_{};
  std::size_t way_ = 0, left_ = 0;
  bool trying_ = true;
};

}  // namespace cria
