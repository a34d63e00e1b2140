// Work on many pieces at once whose results are taken in their order.
#pragma once

#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <cstddef>
#include <vector>

#include "kernels/simd/float_mode.h"

namespace cria {

/// Pieces that may be under way at once.
inline std::size_t pieces_for(unsigned threads) { return 2 * std::size_t{threads}; }

/// For each piece: next(piece) says what it is (false: there are no more), work(piece) computes,
/// write(piece) takes the result. next and write are called for one piece at a time, in order; work
/// for several at once, on `threads` threads. The pieces are used in turn: one that comes round
/// again was written. What a step throws ends the run and is thrown.
template <class Piece, class Next, class Work, class Write>
void run_in_order(unsigned threads, std::vector<Piece>& pieces, Next&& next, Work&& work,
                  Write&& write) {
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, threads);
  tbb::task_arena arena(static_cast<int>(threads));
  std::size_t turn = 0;
  const auto first = [&](tbb::flow_control& control) -> Piece* {
    const DefaultFloatMode mode;
    Piece& piece = pieces[turn++ % pieces.size()];
    if (next(piece)) return &piece;
    control.stop();
    return nullptr;
  };
  arena.execute([&] {
    tbb::parallel_pipeline(
        pieces.size(),
        tbb::make_filter<void, Piece*>(tbb::filter_mode::serial_in_order, first) &
            tbb::make_filter<Piece*, Piece*>(tbb::filter_mode::parallel,
                                             [&](Piece* piece) {
                                               const DefaultFloatMode mode;
                                               work(*piece);
                                               return piece;
                                             }) &
            tbb::make_filter<Piece*, void>(tbb::filter_mode::serial_in_order, [&](Piece* piece) {
              const DefaultFloatMode mode;
              write(*piece);
            }));
  });
}

}  // namespace cria
