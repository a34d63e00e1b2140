// The kernels of one instruction set behind one table of function pointers: the room's public
// header. Contract for every function: kernels/README.md. Nothing here throws or allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/formats/dtype.h"
#include "kernels/rows/activation.h"
#include "kernels/rows/activations.h"

namespace cria {

/// How products of one token, and on AVX2 of few tokens of floats, fetch the weights that they are
/// going to read. All give the same bits; which one is the fastest depends on the machine and on
/// the minute, so whoever multiplies tries them (KernelSet::fetches).
enum class FetchAhead : std::uint8_t {
  Far,      ///< neighbouring rows in the order of memory, at least 32 KiB ahead
  Near,     ///< the same, at least 16 KiB ahead
  Streams,  ///< rows far apart, each the beginning of a long stream: a KiB ahead, or (AVX2) left to
            ///< the processor
  NearStreams,  ///< the same, some hundred bytes ahead
};

/// One matrix product out[t][r] = residual[t][r] + Σ_k W[r][k]·x[t][k] over all tokens t of x.
struct MatMulJob {
  const std::byte* weights;         ///< row 0 of W in its file format, any alignment
  std::size_t row_bytes;            ///< bytes from one row to the next
  std::size_t rows;                 ///< rows of W
  std::size_t cols;                 ///< values per row, a multiple of the block
  const Activations* x;             ///< n_tokens × cols, of the type that the kernel wants
  float* out;                       ///< out[t*out_stride + r]
  std::size_t out_stride;           ///< floats between tokens
  const float* residual = nullptr;  ///< same layout as out; may be out itself; null: none
  /// The weights that this thread reads after the rows of the call: fetched ahead instead of what
  /// lies behind them in memory; null: what lies there is next.
  const std::byte* next = nullptr;
  FetchAhead fetch = FetchAhead::Far;  ///< of one token, or few
  /// x as LayOut::run of the kernel leaves it; null: kernels that want it do so themselves, for
  /// every range of rows.
  const std::byte* laid_out = nullptr;
};

/// Computes rows [row_begin, row_end) of a job for every token; any split into row ranges gives the
/// same bits. scratch: matmul_scratch_bytes(cols) bytes, 64-byte aligned, private to the calling
/// thread.
using MatMulFn = void (*)(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
                          std::byte* scratch);

/// Upper bound of the scratch any matmul kernel wants for rows of `cols` values.
std::size_t matmul_scratch_bytes(std::size_t cols) noexcept;
/// Row ranges that start at multiples of this waste no lanes.
inline constexpr std::size_t kRowTile = 32;

/// Lays quantized activations out as a kernel wants them, once for all rows: MatMulJob::laid_out.
/// Kernels with equal functions and forms of activations share what is laid out.
struct LayOut {
  /// Tokens [t0, t1) of x, or what begins with one of them. to: bytes(x.n_tokens, x.cols) bytes,
  /// 64-byte aligned, of all tokens.
  void (*run)(const Activations& x, std::size_t t0, std::size_t t1,
              std::byte* to) = nullptr;  ///< null: nothing is gained
  std::size_t (*bytes)(std::size_t n_tokens, std::size_t cols) = nullptr;
  std::size_t from = 0, to = 0;  ///< products of [from, to] tokens look at it

  [[nodiscard]] bool wanted(std::size_t n_tokens) const {
    return run != nullptr && from <= n_tokens && n_tokens <= to;
  }
};

/// Products of one weight dtype with activations, as every caller holds them; KernelSet::matmul()
/// gives them.
struct MatMulKernel {
  ActType act = ActType::None;      ///< how activations must be given
  MatMulFn run = nullptr;           ///< null: the type cannot be a weight matrix
  LayOut lay_out{}, lay_out_few{};  ///< products of many tokens, and of few

  /// How n tokens are laid out; its run is null: they are not.
  [[nodiscard]] LayOut layout(std::size_t n) const {
    return lay_out_few.wanted(n) ? lay_out_few : lay_out.wanted(n) ? lay_out : LayOut{};
  }
};

/// Encodes n_values (whole blocks; where rows begin with a header, one row) of x as blocks of one
/// type with a small squared error Σ w·(x - x̂)². importance: null, or a weight w ≥ 0 for each
/// value; zero for all values of a block counts as none. Every block (or such row) depends on its
/// own values only. Finite values whatever x holds: kernels/README.md.
using EncodeFn = void (*)(const float* x, const float* importance, std::size_t n_values,
                          std::byte* blocks);

struct AttentionJob;  // kernels/attention/attention.h
struct KvStoreJob;    // kernels/attention/kv_layout.h

/// Bytes that KernelSet::read_streams_peak wants at least: a page for each of its streams.
inline constexpr std::size_t kMinOfStreams = 8 * 4096;

/// Every kernel of one instruction set.
struct KernelSet {
  /// "scalar", "avx2", "avxvnni", "avx512vnni", "avx512intel", "amx", "neon"
  std::string_view isa;
  MatMulKernel (*matmul)(DType type);
  /// Those that products of one token tell from each other; empty: they all do as they always do.
  std::span<const FetchAhead> fetches{};

  /// How weights of a type are made; null: no encoder.
  EncodeFn (*encode)(DType type);

  /// Fills columns [begin, end), whole blocks, of tokens [t0, t1) of acts (its type says how) from
  /// the same columns and rows of x, which are x_stride floats apart.
  void (*quantize)(const float* x, std::size_t x_stride, Activations& acts, std::size_t t0,
                   std::size_t t1, std::size_t begin, std::size_t end);
  /// y = x·rms(x)·w over n values; y may be x, w null (1).
  void (*rms_norm)(const float* x, const float* w, float eps, float* y, std::size_t n);
  /// y = (x - mean)/sqrt(variance + eps)·w + b over n values; y may be x, w and b null (1 and 0).
  void (*layer_norm)(const float* x, const float* w, const float* b, float eps, float* y,
                     std::size_t n);
  /// Rotates heads×head_dim values in place; cos_sin holds n_rot/2 pairs (cos, sin); half_split:
  /// pairs (i, i+n_rot/2), else (2i, 2i+1).
  void (*rope)(float* x, std::size_t n_heads, std::size_t head_dim, std::size_t n_rot,
               bool half_split, const float* cos_sin);
  /// gate = silu(gate)·up
  void (*silu_mul)(float* gate, const float* up, std::size_t n);
  /// gate = act(gate)·up; up null: act(gate)
  void (*activate)(const Activation& activation, float* gate, const float* up, std::size_t n);
  /// y += x
  void (*add)(float* y, const float* x, std::size_t n);
  /// y = fma(scale, x, y)
  void (*add_scaled)(float* y, const float* x, float scale, std::size_t n);
  /// x = x·scale
  void (*scale)(float* x, float scale, std::size_t n);
  /// x = cap·tanh(x/cap)
  void (*soft_cap)(float* x, float cap, std::size_t n);
  /// x within ±limit
  void (*clamp)(float* x, float limit, std::size_t n);
  /// In place: x = exp(x - max)/Σ
  void (*softmax)(float* x, std::size_t n);
  /// log Σ exp(x) in double, for finite x (kernels/rows/log_softmax.h).
  double (*log_sum_exp)(const float* x, std::size_t n);
  /// Σ exp(p - log_sum)·(p - q) in double: the mean of p - q under the
  /// softmax of p, if log_sum is its log_sum_exp.
  double (*mean_difference)(const float* p, double log_sum, const float* q, std::size_t n);
  /// Converts and scatters the new keys and values of a layer into its
  /// cache, for kv heads [head_begin, head_end).
  void (*store_kv)(const KvStoreJob& job, std::size_t head_begin, std::size_t head_end);
  /// One (kv head, range of tokens) of attention, see kernels/attention/attention.h; with
  /// job.states only of one segment of keys, to be merged.
  void (*attention)(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin,
                    std::size_t token_end, std::byte* scratch);
  /// What attention gives for the same heads and tokens, from job.states: of
  /// job.segments_of(token_begin, token_end), one after the other, where attention has put them.
  void (*merge_segments)(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin,
                         std::size_t token_end);

  /// The machine's limits (kernels/isa/peak.h): loops of int8 dot products, of a matrix unit where
  /// the kernels use one, of float32 FMA, and of bfloat16 pairs where there is an instruction for
  /// them, each returning the multiply-adds that its rounds do; and streaming reads of n bytes,
  /// 64-byte aligned, n a multiple of 4096, in order and by several streams (n at least
  /// kMinOfStreams). Null: none, but every set reads in order.
  std::uint64_t (*int8_peak)(std::uint64_t rounds) = nullptr;
  std::uint64_t (*matrix_peak)(std::uint64_t rounds) = nullptr;
  std::uint64_t (*float_peak)(std::uint64_t rounds) = nullptr;
  std::uint64_t (*bf16_peak)(std::uint64_t rounds) = nullptr;
  void (*read_peak)(const std::byte* bytes, std::size_t n) = nullptr;
  void (*read_streams_peak)(const std::byte* bytes, std::size_t n) = nullptr;
};

/// The instruction sets compiled in that this machine can run, best first; "scalar" is always the
/// last. Without "amx" if CRIA_ISA forces another.
std::span<const KernelSet* const> available_kernels() noexcept;
/// The set chosen once at start: CRIA_ISA if set (null if it names none that can run here), else
/// the best.
const KernelSet* active_kernels() noexcept;

}  // namespace cria
