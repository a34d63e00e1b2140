// How work is divided among ranks.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace cria {

/// How much of the work each rank gets, in proportion: "2,1,1". Not all are 0.
using Shares = std::vector<unsigned>;

/// Throws Error for what is no list of `ranks` numbers from 1 to 1000.
Shares parse_shares(std::string_view text, std::size_t ranks);

/// n units in order: rank r gets [bounds[r], bounds[r + 1]), where bounds are multiples of
/// `together` (or n). Some get none where there are few.
std::vector<std::size_t> divide(std::size_t n, std::size_t together,
                                std::span<const unsigned> shares);

}  // namespace cria
