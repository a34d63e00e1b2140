// Rounding up to whole units. (Inlined: see f16.h)
#pragma once

#include <cstddef>

namespace cria {

/// Pieces of `unit` that n fills, the last in part.
[[gnu::always_inline]] constexpr std::size_t divide_up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit;
}
/// The least multiple of `unit` that is not below n.
[[gnu::always_inline]] constexpr std::size_t round_up(std::size_t n, std::size_t unit) {
  return divide_up(n, unit) * unit;
}

}  // namespace cria
