// What compiling a constraint may cost: counted, not timed, so that every machine decides alike.
#pragma once

#include <cstddef>

#include "engine/constrain/constraint_error.h"

namespace cria {

class Budget {
 public:
  /// Throws ConstraintError when there are no steps left.
  void steps(std::size_t n = 1) {
    steps_ += n;
    if (steps_ > kSteps) throw ConstraintError("costs too much to compile: too many steps", "");
  }
  /// Likewise for bytes of what is kept.
  void bytes(std::size_t n) {
    bytes_ += n;
    if (bytes_ > kBytes) throw ConstraintError("costs too much to compile: more than 64 MiB", "");
  }

 private:
  static constexpr std::size_t kSteps = 20'000'000, kBytes = std::size_t{64} << 20;
  std::size_t steps_ = 0, bytes_ = 0;
};

}  // namespace cria
