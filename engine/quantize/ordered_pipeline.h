// Encodes weights in parallel pieces whose results are taken in order, and the limits of types.
#pragma once

#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include <cstddef>
#include <vector>

#include "kernels/formats/dtype.h"
#include "kernels/simd/float_mode.h"

namespace cria {

/// The largest magnitude that a type can hold; encoding would clip larger ones or make them
/// infinite.
constexpr float largest_held(DType type) {
  switch (type) {
    case DType::F32:
      return 0x1.FFFFFEp127F;
    case DType::BF16:
      return 0x1.FEFFFEp127F;  // the next float rounds to infinity
    case DType::NVFP4:
      return 2688;  // 12 · half of the largest UE4M3
    case DType::MXFP4:
    case DType::IQ4_KS:
    case DType::IQ5_KS:
      return 0x1p40F;  // a limit of the encoders; the scales reach farther
    default:
      return 65504;  // the largest f16: the range of scales and products
  }
}

/// Max pieces in flight.
inline std::size_t pieces_for(unsigned threads) { return 2 * std::size_t{threads}; }

/// For each piece: next(piece) fills it in (false: end), work(piece) computes, write(piece) takes
/// the result. next and write run in order, one piece at a time; work runs on `threads` threads.
/// Pieces are reused in turn after they are written. The exception of a step ends the run.
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
