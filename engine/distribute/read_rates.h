// How fast each rank reads memory: what decoding is bound by, and so what --shares auto divides the
// work by.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ranks/ranks.h"
#include "engine/ranks/shares.h"

namespace cria {

/// Called by all ranks at the same time: GB/s by rank, on every rank. All measure at once, as they
/// will compute: ranks of one machine share its memory. threads: 0: each rank's default. Takes
/// about a third of a second and 256 MiB of memory, for now.
std::vector<double> exchange_read_rates(Ranks& ranks, std::uint32_t threads);

/// In proportion, rounded so that machines that are alike get the same in spite of noise.
Shares shares_of(const std::vector<double>& rates);

}  // namespace cria
