// What two token sequences begin with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "model/token_id.h"

namespace cria {

/// The number of tokens with which both begin.
inline std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace cria
