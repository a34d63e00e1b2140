// The public header of recurrent layers: jobs, and the memory that a sequence keeps per layer.
// Numerics: kernels/README.md.
//
// Memory holds float32 values, starts 64-byte aligned (of a part of a convolution: at any of its
// channels) and is copied as plain bytes. The kernels clear it at position 0. A job may begin up to
// `rollback` rows before the end of the last job: the engine drops rows by a smaller first_pos.
//
// A snapshot at a multiple of 64 positions is the snapshot_floats() values at snapshot_offset().
// After restoring them, the rest of the memory may hold anything.
#pragma once

#include <bit>
#include <cstddef>

namespace cria {

/// Rows of a block of a recurrence, counted from position 0; the state changes at block ends only.
inline constexpr std::size_t kRecurrentBlock = 16;
/// Max rows that memory can be prepared to drop.
inline constexpr std::size_t kMaxRollback = 16;
/// Max taps of a causal convolution.
inline constexpr std::size_t kMaxConvolutionTaps = 32;

/// Memory of a causal convolution: a ring of input rows, [position mod ring_rows()][channels].
struct ConvolutionShape {
  std::size_t channels;
  std::size_t taps;          ///< 1 … kMaxConvolutionTaps
  std::size_t rollback = 0;  ///< max rows that may be dropped, up to kMaxRollback

  /// A power of two, at most 64.
  [[nodiscard]] constexpr std::size_t ring_rows() const {
    return std::bit_ceil(taps - 1 + rollback);
  }
  [[nodiscard]] constexpr std::size_t floats() const { return ring_rows() * channels; }
  [[nodiscard]] constexpr std::size_t snapshot_floats() const { return (taps - 1) * channels; }
  [[nodiscard]] constexpr std::size_t snapshot_offset() const {
    return floats() - snapshot_floats();
  }
};

/// Rows of one sequence through a causal convolution: out = conv(x), optionally with factors before
/// and after it. Rows are `stride` floats apart.
struct ConvolutionJob {
  ConvolutionShape shape;
  float* memory;          ///< shape.floats()
  std::size_t first_pos;  ///< absolute position of row 0
  std::size_t n_rows;
  const float* x;  ///< [n_rows][channels]
  std::size_t x_stride;
  const float* factor = nullptr;      ///< [n_rows][x_stride]: the input is factor·x; null: x
  const float* weights;               ///< [channels][taps], oldest tap first
  const float* bias = nullptr;        ///< [channels]; null: none
  bool silu = false;                  ///< out = silu(conv)
  const float* out_factor = nullptr;  ///< [n_rows][x_stride]: out = out_factor·conv; null: conv
  float* out;                         ///< [n_rows][channels]; may be x
  std::size_t out_stride;
};

/// Memory of a gated delta rule or of Mamba-2. Per head a state S of key_dim × value_dim and a log
/// of the open block's rows: keys, updates, decays. With rollback there are two of each, by parity
/// of the block.
struct RecurrenceShape {
  std::size_t n_heads;  ///< value heads
  std::size_t key_dim, value_dim;
  bool key_decay = false;    ///< a decay per key dimension (KDA), not per head
  std::size_t rollback = 0;  ///< max rows that may be dropped, up to kMaxRollback

  /// Values of S lie in strips of this many value dimensions: [strip][key_dim][kStrip].
  static constexpr std::size_t kStrip = 32;
  [[nodiscard]] constexpr std::size_t slots() const { return rollback == 0 ? 1 : 2; }
  /// value_dim rounded up to whole strips.
  [[nodiscard]] constexpr std::size_t padded_values() const {
    return (value_dim + kStrip - 1) / kStrip * kStrip;
  }
  /// Floats of S of a head.
  [[nodiscard]] constexpr std::size_t state_floats() const { return key_dim * padded_values(); }
  /// Floats of one log of a head.
  [[nodiscard]] constexpr std::size_t log_floats() const {
    return kRecurrentBlock * (key_dim + padded_values() + (key_decay ? key_dim : 1));
  }
  /// [slot][head] S, then [head][slot] log.
  [[nodiscard]] constexpr std::size_t floats() const {
    return slots() * n_heads * (state_floats() + log_floats());
  }
  [[nodiscard]] constexpr std::size_t snapshot_floats() const { return n_heads * state_floats(); }
  [[nodiscard]] constexpr std::size_t snapshot_offset() const { return 0; }
};

/// Rows of one sequence through a recurrence of heads. Head h uses key head
/// (first_head + h) / key_head_repeat mod n_key_heads. Rows of an input are its stride apart, in
/// floats.
struct RecurrenceJob {
  RecurrenceShape shape;
  float* memory;          ///< shape.floats()
  std::size_t first_pos;  ///< absolute position of row 0
  std::size_t n_rows;
  std::size_t n_key_heads;
  std::size_t key_head_repeat;  ///< neighbouring heads with one key head; 1: heads go round
  std::size_t first_head = 0;   ///< the layer's heads before the shape's
  /// True: the gated delta rule; false: values are added as they are (Mamba-2).
  bool delta;
  /// Keys and queries are divided by sqrt(sum of squares + this); 0: they are used as they are.
  float norm_eps = 0;
  float q_scale = 1;  ///< factor of the queries
  const float* q;     ///< [n_rows][n_key_heads × key_dim]; Mamba-2: C
  std::size_t q_stride;
  const float* k;  ///< [n_rows][n_key_heads × key_dim]; Mamba-2: B
  std::size_t k_stride;
  const float* v;  ///< [n_rows][n_heads × value_dim]; Mamba-2: x
  std::size_t v_stride;
  const float* beta;  ///< [n_rows][n_heads]: factor of the update; Mamba-2: dt
  std::size_t beta_stride;
  const float* decay;  ///< [n_rows][n_heads] or, with key_decay, [n_rows][n_heads × key_dim]
  std::size_t decay_stride;
  const float* skip = nullptr;  ///< [n_heads]: out += skip·v; null: none
  float* out;                   ///< [n_rows][n_heads × value_dim]; may be v
  std::size_t out_stride;
};

/// Scratch bytes per thread for jobs of this key dimension.
constexpr std::size_t recurrence_scratch_bytes(std::size_t key_dim) {
  const std::size_t block = kRecurrentBlock;
  return sizeof(float) * (3 * block * key_dim + (key_dim + block) / block * block +
                          2 * block * block + 2 * block * RecurrenceShape::kStrip + 2 * block);
}

/// Memory of Mamba-1: the state [channels][state_dim] after each of the last rows,
/// [position mod slots()].
struct ScanShape {
  std::size_t channels, state_dim;
  std::size_t rollback = 0;  ///< max rows that may be dropped, up to kMaxRollback

  /// A power of two, at most 32.
  [[nodiscard]] constexpr std::size_t slots() const { return std::bit_ceil(rollback + 1); }
  [[nodiscard]] constexpr std::size_t snapshot_floats() const { return channels * state_dim; }
  [[nodiscard]] constexpr std::size_t snapshot_offset() const { return 0; }
  [[nodiscard]] constexpr std::size_t floats() const { return slots() * snapshot_floats(); }
};

/// Rows of one sequence through the selective scan of Mamba-1.
struct ScanJob {
  ScanShape shape;
  float* memory;          ///< shape.floats()
  std::size_t first_pos;  ///< absolute position of row 0
  std::size_t n_rows;
  const float* x;  ///< [n_rows][channels]
  std::size_t x_stride;
  const float* dt;  ///< [n_rows][channels], after softplus
  std::size_t dt_stride;
  const float* b;  ///< [n_rows][state_dim]
  std::size_t b_stride;
  const float* c;  ///< [n_rows][state_dim]
  std::size_t c_stride;
  const float* a;     ///< [channels][state_dim], negative
  const float* skip;  ///< [channels]: out += skip·x; null: none
  float* out;         ///< [n_rows][channels]; may be x
  std::size_t out_stride;
};

}  // namespace cria
