// How the rows of a node are divided among threads, and each thread's into chunks.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/execute/graph_parts.h"

namespace cria {

/// Chunks of n rows or heads for Team::run. Every thread's share is cut into chunks that get
/// smaller, as 6, 5, … 1: a thread that is late is helped out with what it has not begun, and at
/// the end, where nobody has anything left, all wait for a small one (measured:
/// bench/processors/zen5.md, "Ends of regions").
class RowChunks {
 public:
  /// All of step, but the last.
  static RowChunks equal(std::size_t n, std::size_t step) {
    return {n, (n + step - 1) / step, 1, 1, step};
  }
  /// Of at most `most` chunks a thread, each of a unit and more; they begin at multiples of it.
  static RowChunks shrinking(std::size_t n, std::size_t threads, std::size_t most,
                             std::size_t unit) {
    std::size_t parts = most;
    while (parts > 1 && share(parts) * unit * threads > n) --parts;
    if (parts == 1)
      return equal(n, std::max((n + threads - 1) / threads + unit - 1, unit) / unit * unit);
    return {n, threads * parts, threads, parts, unit};
  }

  [[nodiscard]] std::size_t size() const { return chunks_; }
  [[nodiscard]] UnitRange operator[](std::size_t chunk) const {
    return {begin_of(chunk), begin_of(chunk + 1)};
  }

 private:
  /// Of a thread, in the smallest chunk: 6 + 5 + … + 1.
  static constexpr std::size_t share(std::size_t parts) { return parts * (parts + 1) / 2; }

  RowChunks(std::size_t n, std::size_t chunks, std::size_t threads, std::size_t parts,
            std::size_t unit)
      : n_(n), chunks_(chunks), threads_(threads), parts_(parts), unit_(unit) {}

  [[nodiscard]] std::size_t begin_of(std::size_t chunk) const {
    if (parts_ == 1) return std::min(n_, chunk * unit_);
    const std::size_t before =
        chunk / parts_ * share(parts_) + share(parts_) - share(parts_ - chunk % parts_);
    const std::size_t exact = n_ * before / (threads_ * share(parts_));
    return std::min(n_, (exact + unit_ - 1) / unit_ * unit_);
  }

  std::size_t n_, chunks_, threads_, parts_, unit_;
};

}  // namespace cria
