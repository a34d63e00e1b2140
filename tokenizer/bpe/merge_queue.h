// The pairs that wait to be merged: the least rank first, of equal ranks the leftmost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <vector>

namespace cria {

/// A heap of ranks over a list of positions for each rank. Positions of one rank arrive nearly in
/// order, so most go to the end of a list: on a word of 20 million letters two to three times as
/// fast as one heap of all pairs.
class MergeQueue {
 public:
  struct Entry {
    std::uint32_t rank, at;
  };

  void push(std::uint32_t rank, std::uint32_t at) {
    Positions& positions = lists_[rank];
    if (positions.empty()) ranks_.push(rank);
    if (positions.in_order.empty() || positions.in_order.back() <= at)
      positions.in_order.push_back(at);
    else
      positions.late.push(at);
  }
  [[nodiscard]] bool empty() const { return ranks_.empty(); }
  Entry pop() {
    const std::uint32_t rank = ranks_.top();
    Positions& positions = lists_[rank];
    const std::uint32_t at = positions.pop();
    if (positions.empty()) ranks_.pop();
    return {rank, at};
  }

 private:
  template <class T>
  using Least = std::priority_queue<T, std::vector<T>, std::greater<>>;

  struct Positions {
    std::vector<std::uint32_t> in_order;
    std::size_t next = 0;  ///< of in_order; those before are done
    Least<std::uint32_t> late;

    [[nodiscard]] bool empty() const { return next == in_order.size() && late.empty(); }
    std::uint32_t pop() {
      if (late.empty() || (next < in_order.size() && in_order[next] <= late.top())) {
        const std::uint32_t at = in_order[next++];
        if (next == in_order.size()) {
          in_order.clear();
          next = 0;
        }
        return at;
      }
      const std::uint32_t at = late.top();
      late.pop();
      return at;
    }
  };

  std::unordered_map<std::uint32_t, Positions> lists_;  ///< by rank
  Least<std::uint32_t> ranks_;                          ///< of the lists that are not empty
};

}  // namespace cria
