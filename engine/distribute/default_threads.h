// How many threads a rank starts where nothing else is asked for.
#pragma once

#include <algorithm>

#include "engine/execute/machine.h"
#include "engine/ranks/ranks.h"

namespace cria {

/// Its processors, shared with the ranks that run on the same ones. ranks: null: there are none.
inline unsigned default_threads(const Ranks* ranks) {
  return std::max(1U, usable_cores() / (ranks == nullptr ? 1 : ranks->neighbours()));
}

}  // namespace cria
