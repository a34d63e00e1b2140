// The kernels of one instruction set in one table of function pointers: the module's public header.
// Contract of every function: kernels/README.md. Nothing here throws or allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/formats/dtype.h"
#include "kernels/rows/activations.h"

namespace cria {

/// Prefetch mode of a GEMV (AVX2: also of a small float GEMM). Both modes give the same bits. The
/// faster one depends on the processor and its load: the engine tries both.
enum class PrefetchMode : std::uint8_t {
  InOrder,  ///< neighbouring rows, prefetched in the order of memory
  Streams,  ///< rows far apart, each a long stream that the hardware prefetchers follow
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
  /// The weights that this thread reads after these rows; null: those that follow in memory.
  const std::byte* next_weights = nullptr;
  PrefetchMode prefetch = PrefetchMode::InOrder;
  /// x as packed by PackActivations::run of the kernel; null: the kernel packs x in every call.
  const std::byte* packed = nullptr;
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

/// Packs activations in the layout of a kernel, once for all rows (MatMulJob::packed). Kernels with
/// equal `run` and equal ActType share the packed activations.
struct PackActivations {
  /// Packs the tokens [t0, t1) of x, or the tiles that begin there; null: the kernel needs no
  /// packing. to: room for all tokens, bytes(x.n_tokens, x.cols), 64-byte aligned.
  void (*run)(const Activations& x, std::size_t t0, std::size_t t1, std::byte* to) = nullptr;
  std::size_t (*bytes)(std::size_t n_tokens, std::size_t cols) = nullptr;
  std::size_t from = 0, to = 0;  ///< the kernel reads packed activations for from … to tokens

  [[nodiscard]] bool applies(std::size_t n_tokens) const {
    return run != nullptr && from <= n_tokens && n_tokens <= to;
  }
};

/// Products of one weight dtype with activations, as every caller holds them; KernelSet::matmul()
/// gives them.
struct MatMulKernel {
  ActType act = ActType::None;           ///< how activations must be given
  MatMulFn run = nullptr;                ///< null: the type cannot be a weight matrix
  PackActivations pack{}, pack_small{};  ///< for a GEMM and for a small-batch GEMM

  /// The packing for n tokens; run is null if none applies.
  [[nodiscard]] PackActivations packing(std::size_t n) const {
    return pack_small.applies(n) ? pack_small : pack.applies(n) ? pack : PackActivations{};
  }
};

/// Fills out with the n_values (whole blocks) of a row: see DTypeInfo::dequantize.
using DequantizeFn = decltype(DTypeInfo::dequantize);

/// Encodes n_values (whole blocks; where rows begin with a header, one row) of x as blocks of one
/// type with a small squared error Σ w·(x - x̂)². importance: null, or a weight w ≥ 0 for each
/// value; zero for all values of a block counts as none. Every block (or such row) depends on its
/// own values only. Finite values whatever x holds: kernels/README.md.
using EncodeFn = void (*)(const float* x, const float* importance, std::size_t n_values,
                          std::byte* blocks);

/// The activation functions of KernelSet::activate. Formulas: kernels/README.md.
enum class ActivationKind : std::uint8_t {
  Silu,           ///< z·sigmoid(z)
  Gelu,           ///< by tanh
  GeluErf,        ///< z·Φ(z), Φ the normal distribution (BERT)
  ReluSquared,    ///< max(z, 0)²
  Xielu,          ///< with its four parameters
  ClampedSwiglu,  ///< gpt-oss: clamped gate and up, sigmoid of 1.702 times the gate, up + 1; needs
                  ///< up
  Sigmoid,
};

struct Activation {
  ActivationKind kind = ActivationKind::Silu;
  float alpha_p = 0, alpha_n = 0, beta = 0,
        eps = 0;  ///< Xielu: factors of z² and of e^z - 1 - z, as applied
};

struct AttentionJob;  // kernels/attention/attention.h
struct KvStoreJob;    // kernels/attention/attention.h

struct ConvolutionJob;  // kernels/recurrent/recurrent.h
struct RecurrenceJob;   // kernels/recurrent/recurrent.h
struct ScanJob;         // kernels/recurrent/recurrent.h

/// Min bytes for KernelSet::read_streams_peak: a page for each of its streams.
inline constexpr std::size_t kMinOfStreams = 8 * 4096;

/// Every kernel of one instruction set.
struct KernelSet {
  /// "scalar", "avx2", "avxvnni", "avx512vnni", "avx512intel", "amx", "neon"
  std::string_view isa;
  MatMulKernel (*matmul)(DType type);
  /// Modes that the GEMV distinguishes, the usual best one first; empty: it has one.
  std::span<const PrefetchMode> prefetch_modes{};

  /// The encoder of a type; null if it has none.
  EncodeFn (*encode)(DType type);
  /// DTypeInfo::dequantize of a type, by vectors: the same values.
  DequantizeFn (*dequantize)(DType type);

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
  /// y -= Σ factors[i]·rows[i], one row after the other, products rounded
  void (*subtract_rows)(double* y, const double* const* rows, const double* factors,
                        std::size_t n_rows, std::size_t n);
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
  /// Merges the states of job.segments_of(token_begin, token_end) in job.states, as stored by
  /// attention(), into the result of attention for these heads and tokens.
  void (*merge_segments)(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin,
                         std::size_t token_end);

  /// Channels [channel_begin, channel_end) of all rows of a causal convolution; memory's rows for
  /// these. Ranges are best multiples of 16.
  void (*convolution)(const ConvolutionJob& job, std::size_t channel_begin,
                      std::size_t channel_end);
  /// Heads [head_begin, head_end) of all rows of a gated delta rule or Mamba-2. scratch:
  /// recurrence_scratch_bytes(key_dim), 64-byte aligned, private to the calling thread.
  void (*recurrence)(const RecurrenceJob& job, std::size_t head_begin, std::size_t head_end,
                     std::byte* scratch);
  /// Channels [channel_begin, channel_end) of all rows of Mamba-1. Ranges are best multiples of 16.
  void (*selective_scan)(const ScanJob& job, std::size_t channel_begin, std::size_t channel_end);
  /// For n_heads × per_head values of a row: dt = softplus(x + bias), decay = exp(dt·a[head]).
  /// bias null: 0; dt or decay null: not wanted; a [n_heads], null without decay. dt may be x.
  void (*softplus_decay)(const float* x, const float* bias, const float* a, std::size_t n_heads,
                         std::size_t per_head, float* dt, float* decay);

  /// The machine's limits (kernels/isa/peak.h). The first four run loops and return their
  /// multiply-adds: int8 dot products, a matrix unit (if used by kernels), float32 FMA, bfloat16
  /// pairs (if there is an instruction). The others read n bytes (64-byte aligned, a multiple of
  /// 4096), in order and by several streams (n >= kMinOfStreams). Null if unsupported; every set
  /// has read_peak.
  std::uint64_t (*int8_peak)(std::uint64_t rounds) = nullptr;
  std::uint64_t (*matrix_peak)(std::uint64_t rounds) = nullptr;
  std::uint64_t (*float_peak)(std::uint64_t rounds) = nullptr;
  std::uint64_t (*bf16_peak)(std::uint64_t rounds) = nullptr;
  void (*read_peak)(const std::byte* bytes, std::size_t n) = nullptr;
  void (*read_streams_peak)(const std::byte* bytes, std::size_t n) = nullptr;
};

/// The reference kernel of a type, which defines the bits (matmul/scalar.cpp); run is null for
/// types that cannot be a weight matrix. Needs no scratch.
MatMulKernel scalar_matmul(DType type);

/// The instruction sets compiled in that this machine can run, best first; "scalar" is always the
/// last. Without "amx" if CRIA_ISA forces another.
std::span<const KernelSet* const> available_kernels() noexcept;
/// The set chosen once at start: CRIA_ISA if set (null if it names none that can run here), else
/// the best.
const KernelSet* active_kernels() noexcept;

}  // namespace cria
