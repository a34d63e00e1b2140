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

/// The largest magnitude that a type can hold with either sign; encoding would clip larger ones or
/// make them infinite. Blocks hold f16 scales times integers.
constexpr float largest_held(DType type) {
  constexpr float kF16 = 65504;
  switch (type) {
    case DType::F32:
      return 0x1.FFFFFEp127F;
    case DType::BF16:
      return 0x1.FEFFFEp127F;  // the next float rounds to infinity
    case DType::NVFP4:
      return 2688;  // 12 · half of the largest UE4M3
    case DType::MXFP4:
    case DType::IQ4_KS:
    case DType::IQ4_KSS:
    case DType::IQ5_KS:
      return 0x1p40F;  // a limit of the encoders; the scales reach farther
    case DType::Q8_0:
      return 127 * kF16;
    case DType::Q4_0:
      return 7 * kF16;
    case DType::Q5_0:
    case DType::Q2_K:  // the largest minimum
      return 15 * kF16;
    case DType::Q3_K:
    case DType::Q4_K:
    case DType::Q5_K:
      return 63 * kF16;
    case DType::Q6_K:
    case DType::IQ4_XS:
      return 31 * 113 * kF16;
    case DType::IQ4_NL:
      return 113 * kF16;
    default:
      return kF16;
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
