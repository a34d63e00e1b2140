// What compiling a constraint may cost: counted, not timed, so that every machine decides alike.
#pragma once

#include <cstddef>
#include <utility>

#include "engine/constrain/constraint_error.h"

namespace cria {

/// Bytes of a schema, a grammar or an expression, at most.
inline constexpr std::size_t kMaxConstraintText = 256 << 10;

class Budget {
 public:
  static constexpr std::size_t kSteps = 20'000'000;

  explicit Budget(std::size_t steps = kSteps) : steps_left_(steps) {}

  /// Throws ConstraintError when there are no steps left.
  void steps(std::size_t n = 1) {
    const bool enough = n <= steps_left_;
    steps_left_ = enough ? steps_left_ - n : 0;
    if (!enough) throw ConstraintError("costs too much to compile: too many steps", "");
  }
  [[nodiscard]] std::size_t steps_left() const { return steps_left_; }
  /// Likewise for bytes of what is kept.
  void bytes(std::size_t n) {
    bytes_ += n;
    if (bytes_ > kBytes) throw ConstraintError("costs too much to compile: more than 64 MiB", "");
  }

 private:
  friend class HeldBytes;
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  std::size_t steps_left_, bytes_ = 0;
};

/// Bytes of what is kept for a while, given back with it; a copy takes as many again.
class HeldBytes {
 public:
  HeldBytes() = default;
  /// The budget must outlive it.
  HeldBytes(Budget& budget, std::size_t n) : budget_(&budget), n_(n) { budget.bytes(n); }
  HeldBytes(const HeldBytes& other) : budget_(other.budget_), n_(other.n_) {
    if (budget_ != nullptr) budget_->bytes(n_);
  }
  HeldBytes(HeldBytes&& other) noexcept : budget_(other.budget_), n_(std::exchange(other.n_, 0)) {}
  HeldBytes& operator=(HeldBytes other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(n_, other.n_);
    return *this;
  }
  ~HeldBytes() {
    if (budget_ != nullptr) budget_->bytes_ -= n_;
  }

 private:
  Budget* budget_ = nullptr;
  std::size_t n_ = 0;
};

}  // namespace cria
