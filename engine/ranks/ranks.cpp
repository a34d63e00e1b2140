#include "engine/ranks/ranks.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string>

#include "kernels/simd/round.h"
#include "model/error.h"

namespace cria {

Shares parse_shares(std::string_view text, std::size_t ranks) {
  constexpr unsigned kMost = 1000;
  const auto fail = [&] {
    throw Error("shares of ranks: expected " + std::to_string(ranks) + " numbers from 1 to " +
                std::to_string(kMost) + " between commas, one for each rank, got " +
                printable(text));
  };
  Shares shares;
  for (const char *at = text.data(), *const end = at + text.size();; ++at) {
    unsigned share = 0;
    const auto [after, error] = std::from_chars(at, end, share);
    if (error != std::errc() || share == 0 || share > kMost) fail();
    shares.push_back(share);
    at = after;
    if (at == end) break;
    if (*at != ',') fail();
  }
  if (shares.size() != ranks) fail();
  return shares;
}

std::vector<std::size_t> divide(std::size_t n, std::size_t together,
                                std::span<const unsigned> shares) {
  const std::size_t all = std::accumulate(shares.begin(), shares.end(), std::size_t{0});
  const std::size_t pieces = divide_up(n, together);
  std::vector<std::size_t> bounds(1, 0);
  std::size_t sum = 0;
  for (const unsigned share : shares) {
    sum += share;
    bounds.push_back(
        std::min(n, (2 * pieces * sum + all) / (2 * all) * together));  // to the nearest piece
  }
  return bounds;
}

}  // namespace cria
