// Float products straight from the file (numerics: kernels/README.md): a few rows meet all tokens,
// a block of registers at a time.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/kernels.h"
#include "kernels/matmul/float_blocks.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

inline constexpr std::size_t kDirectWave =
    128;  ///< tokens that meet the same rows in the file, at most,
inline constexpr std::size_t kDirectWaveBytes = 512 << 10;  ///< so that they stay in L2
inline constexpr std::size_t kDirectLeast =
    24;  ///< min tokens, or the weights would be read too often
inline constexpr std::size_t kDirectRowBytes =
    2 << 20;  ///< rows that all waves meet: they stay in L3

/// Scratch: sums of a wave, between pieces of long rows. (Blocks of rows have at most eight.)
inline constexpr std::size_t kFloatRowsScratchBytes = kDirectWave * 8 * kFloatLanes * sizeof(float);

template <class Isa, Stored type>
class FloatRows : FloatJob {
  using V = F32x16<Isa>;
  using Block = FloatBlock<Isa>;
  static constexpr DirectBlock kDirect = Block::direct(type);
  static constexpr TokensAtOnce kTokensAtOnce = Block::at_once(type);
  static_assert(kDirect.rows <= 8 && kTokensAtOnce.most <= 8);
  /// Blocks of registers: rows × least to most tokens. All tokens of a wave pass `piece` columns
  /// together, so that weights stay in L1, into which rows are fetched where `near`. streams: rows
  /// are read in long streams, and nothing is fetched.
  struct Way {
    std::size_t rows, least, most, piece;
    bool near, streams;
  };
  static constexpr DirectBlock kDirectSmall = small_direct<Block>(type);
  static_assert(kDirectSmall.rows <= 8);
  static constexpr std::size_t piece_of(std::size_t bytes) { return bytes / stored_bytes(type); }
  static constexpr std::size_t kPiece = piece_of(kDirect.bytes);
  static_assert(kPiece % kFloatLanes == 0);
  static constexpr Way kOne{Block::kRowsOfOne, 1, 1, kPiece, false, Block::kStreams.always >= 1},
      kAtOnce{3, kTokensAtOnce.least, kTokensAtOnce.most, kAll, true, false},
      kMany{kDirect.rows, 1, kDirect.tokens, kPiece, false, false},
      kManySmall{kDirectSmall.rows, 1,    kDirectSmall.tokens, piece_of(kDirectSmall.bytes),
                 kNearSmall<Isa>,   false},
      kShortSmall{kDirectSmall.rows, 1, kShortTokens<Isa>, kAll, kNearSmall<Isa>, false},
      kManyInStreams{kDirect.rows, 1, kDirect.tokens, kPiece, false, true};
  template <std::size_t Rows, std::size_t Tokens>
  using Sums = V[Rows][Tokens];

 public:
  /// scratch: kFloatRowsScratchBytes
  FloatRows(const MatMulJob& job, std::byte* scratch)
      : FloatJob(job), saved_(reinterpret_cast<float*>(scratch)), end_token_(job.x->n_tokens) {}

  void run(std::size_t begin, std::size_t end) {
    const std::size_t n = job_.x->n_tokens;
    end_row_ = end;
    if (n == 1) return direct<kOne>(begin, end);
    if constexpr (kTokensAtOnce.most != 0) {
      if (kTokensAtOnce.has(n)) return direct<kAtOnce>(begin, end);
    }
    if constexpr (Block::kStreams.wanted > 1) {
      if (n <= (job_.prefetch == PrefetchMode::Streams ? Block::kStreams.wanted
                                                       : Block::kStreams.always))
        return in_waves<kManyInStreams>(begin, end);
    }
    if constexpr (kShortTokens<Isa> != 0) {
      if (kSmallL1Cache && kDirectSmall.rows * job_.row_bytes <= kShortBytes)
        return in_waves<kShortSmall>(begin, end);
    }
    if constexpr (kDirectSmall != kDirect) {
      if (kSmallL1Cache) return in_waves<kManySmall>(begin, end);
    }
    in_waves<kMany>(begin, end);
  }

 private:
  template <Way way>
  void in_waves(std::size_t begin, std::size_t end) {
    const std::size_t n = job_.x->n_tokens,
                      fit = kDirectWaveBytes / (job_.cols * sizeof(float) + 1),
                      most = std::clamp(fit, kDirectLeast, kDirectWave), waves = divide_up(n, most),
                      blocks = kDirectRowBytes / (job_.row_bytes + 1) / way.rows,
                      together =
                          waves == 1 ? end - begin : std::max(blocks, std::size_t{1}) * way.rows;
    for (std::size_t row = begin; row < end; row += together)
      for (std::size_t wave = 0; wave < waves; ++wave) {
        first_token_ = n * wave / waves;
        end_token_ = n * (wave + 1) / waves;
        direct<way>(row, std::min(row + together, end));
      }
  }

  /// One step of 16 columns, a register of the lanes at a time and rows one at a time, which leaves
  /// registers for the sums.
  template <std::size_t Rows, std::size_t Tokens, class RowAt, class TokenAt>
  [[gnu::always_inline]] static void multiply_add(RowAt row, TokenAt token,
                                                  Sums<Rows, Tokens>& sums) {
    CRIA_UNROLL
    for (std::size_t part = 0; part < V::kParts; ++part) {
      typename V::Batch x[Tokens];
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j) x[j] = V::Ops::load(token(j) + part * V::Ops::kSize);
      CRIA_UNROLL
      for (std::size_t i = 0; i < Rows; ++i) {
        const typename V::Batch w = V::template load_part_as<type>(row(i), part);
        CRIA_UNROLL
        for (std::size_t j = 0; j < Tokens; ++j)
          sums[i][j].part[part] = V::Ops::fma(w, x[j], sums[i][j].part[part]);
      }
    }
  }

  template <Way way>
  void direct(std::size_t begin, std::size_t end) {
    const RowGroups groups(begin, end, way.rows, way.streams ? job_.row_bytes : 0);
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const auto [row, n, apart] = groups[group];
      apart_ = apart;
      if (n == way.rows)
        direct_rows<way.rows, way>(row);
      else
        for (std::size_t i = 0; i < n; ++i) direct_rows<1, way>(row + i);
    }
  }
  /// Each block of tokens prefetches its part of the next rows, or memory would idle while the
  /// others run.
  struct Fetches {
    std::size_t block, blocks;
  };
  /// Rows from `row` on, apart_ from each other, for all tokens, straight from the file.
  template <std::size_t Rows, Way way>
  void direct_rows(std::size_t row) {
    const std::size_t n = end_token_, blocks = (n - first_token_ + way.most - 1) / way.most;
    for (std::size_t k = 0; k == 0 || k < job_.cols; k += way.piece)
      for (std::size_t t = first_token_, b = 0; t < n; ++b)  // as equal as can be
        t += direct_tokens<Rows, way.most, way>((n - t + blocks - b - 1) / (blocks - b), row, t, k,
                                                {b, blocks});
  }
  template <std::size_t Rows, std::size_t Tokens, Way way>
  std::size_t direct_tokens(std::size_t n, std::size_t row, std::size_t t, std::size_t k,
                            Fetches fetches) {
    if constexpr (Tokens > way.least) {
      if (n < Tokens) return direct_tokens<Rows, Tokens - 1, way>(n, row, t, k, fetches);
    }
    direct_block<Rows, Tokens, way>(row, t, k, fetches);
    return Tokens;
  }
  template <std::size_t Rows, std::size_t Tokens, Way way>
  void direct_block(std::size_t row, std::size_t t, std::size_t first, Fetches fetches) {
    const std::byte* weights = job_.weights + row * job_.row_bytes;
    const float* tokens = token(t);
    const std::size_t left = job_.cols - first, end = first + std::min(left, way.piece),
                      row_bytes = apart_ * job_.row_bytes, x_stride = job_.x->f32_stride;
    const bool last = end == job_.cols;
    float* const saved = saved_ + (t - first_token_) * Rows * kFloatLanes;
    Sums<Rows, Tokens> sums;
    CRIA_UNROLL
    for (std::size_t i = 0; i < Rows; ++i) {
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j)
        sums[i][j] = first == 0 ? V::broadcast(0) : V::load(saved + (i * Tokens + j) * kFloatLanes);
    }
    std::size_t k = first;
    const auto w = [&](std::size_t i) { return weights + i * row_bytes + k * stored_bytes(type); };
    const auto x = [&](std::size_t j) { return tokens + j * x_stride + k; };
    constexpr std::size_t kStep = Rows * kFloatLanes * stored_bytes(type), kNear = 1024;
    [[maybe_unused]] const std::byte* ahead =
        prefetch_address(weights, Rows * row_bytes, job_.weights + end_row_ * job_.row_bytes,
                         job_.next_weights) +
        Rows * first * stored_bytes(type);
    [[maybe_unused]] std::size_t wait = fetches.block;
    for (; k + kFloatLanes <= end; k += kFloatLanes) {
      if constexpr (!way.streams) {
        if (wait == 0) prefetch_far_l2<kStep>(ahead), wait = fetches.blocks;
        --wait;
        ahead += kStep;
      }
      if constexpr (way.near)
        for (std::size_t i = 0; i < Rows; ++i) __builtin_prefetch(w(i) + kNear, 0, 3);
      multiply_add(w, x, sums);
    }
    if (const std::size_t tail = end - k; tail > 0) {
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j) {
        const V right = V::load_partial(x(j), tail);
        CRIA_UNROLL
        for (std::size_t i = 0; i < Rows; ++i)
          sums[i][j] = fma(V::template load_partial_as<type>(w(i), tail), right, sums[i][j]);
      }
    }
    if (last) return finish<Rows, Tokens>(row, t, sums);
    CRIA_UNROLL
    for (std::size_t i = 0; i < Rows; ++i) {
      CRIA_UNROLL
      for (std::size_t j = 0; j < Tokens; ++j)
        sums[i][j].store(saved + (i * Tokens + j) * kFloatLanes);
    }
  }
  /// Reduces the sums by trees, several at once.
  template <std::size_t Rows, std::size_t Tokens>
  [[gnu::always_inline]] void finish(std::size_t row, std::size_t t,
                                     const Sums<Rows, Tokens>& sums) {
    constexpr std::size_t kSums = Rows * Tokens, kSixteens = kSums / 16 * 16,
                          kFours = kSums / 4 * 4;
    const auto sum = [&](std::size_t i) -> const V& { return sums[i % Rows][i / Rows]; };
    alignas(64) float total[kSums];
    CRIA_UNROLL
    for (std::size_t i = 0; i < kSixteens; i += 16)
      V::sums([&](std::size_t k) { return sum(i + k); }).store(total + i);
    CRIA_UNROLL
    for (std::size_t i = kSixteens; i < kFours; i += 4)
      V::sum4(sum(i), sum(i + 1), sum(i + 2), sum(i + 3), total + i);
    CRIA_UNROLL
    for (std::size_t i = kFours; i < kSums; ++i) total[i] = sum(i).sum();
    for (std::size_t j = 0; j < Tokens; ++j)
      for (std::size_t i = 0; i < Rows; ++i) put(row + i * apart_, t + j, total[j * Rows + i]);
  }

  float* saved_;
  std::size_t first_token_ = 0, end_token_;  ///< tokens of the wave
  std::size_t end_row_ = 0;                  ///< end of the rows of run()
  std::size_t apart_ = 1;  ///< rows between those that direct_rows() takes together
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
