// The compute graph: a flat list of nodes, built once per model. It can be printed, timed and
// observed by name. A node says all that it does; whoever runs it knows no hyper-parameters. What
// is fused is decided while it is built (builder.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/rope.h"
#include "kernels/attention/attention.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/gguf/gguf.h"

namespace cria {

/// What a node computes for every token.
enum class Op : std::uint8_t {
  Embed,         ///< out = scale · row of the table
  Norm,          ///< out = norm(in), or out += norm(in)
  Heads,         ///< q, k, v = W·in, rotated, normed …; k and v into a cache
  HeadProducts,  ///< out of head h = W[h]·in of head h
  Attention,     ///< out = softmax(q·K)·V
  MatMul,        ///< out = W·in + bias, or out += W·in + bias
  FeedForward,   ///< out = act(gate·in)·(up·in), or act(up·in)
  Route,         ///< which experts a token takes, and their weights, from the router's products
  ExpertsUp,     ///< FeedForward for every chosen expert
  ExpertsDown,   ///< out = Σ weight·(down·in) over the chosen experts
  Add,           ///< out = out + scale·in
  Scale,         ///< out = out · scale
  Gate,          ///< out = out · sigmoid(in[0])
  GateMul,       ///< out = act(out)·in[offset …]
};
std::string_view name(Op op) noexcept;

/// The intermediate values that nodes read and write: rows of floats, for every token one or
/// several.
using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};

/// A set of activation types.
class ActTypes {
 public:
  constexpr void add(ActType type) { bits_ |= bit(type); }
  constexpr void add(ActTypes other) { bits_ |= other.bits_; }
  [[nodiscard]] constexpr bool has(ActType type) const { return (bits_ & bit(type)) != 0; }
  [[nodiscard]] bool quantized() const;  ///< whether any of kQuantizedForms is among them

 private:
  static constexpr std::uint8_t bit(ActType type) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(type));
  }
  std::uint8_t bits_ = 0;
};

struct ValueInfo {
  std::string name;
  std::size_t width = 0;           ///< floats of a row
  std::size_t rows_per_token = 1;  ///< more: one for each expert that a token takes
  ActTypes acts;                   ///< every form in which some node needs it
};

/// What an adapter adds to a product W·in: B·low, where the value low is A·in (a node of its own).
struct LoraProduct {
  ValueId low = ~ValueId{0};
  TensorView b;  ///< F32 [rank, rows]
  MatMulKernel kernel;
};

/// A weight matrix with the kernel that multiplies by it: a tensor, or some rows of one.
struct Matrix {
  TensorView weight;
  std::optional<TensorView> bias;  ///< F32 [rows]
  MatMulKernel kernel;
  std::optional<TensorView>
      scale;  ///< F32 [1], [rows], or of stacked matrices one each: times the product
  std::optional<LoraProduct> lora = {};

  /// Where a row's weights begin.
  [[nodiscard]] const std::byte* row(std::size_t index) const {
    return weight.data + index * weight.row_bytes();
  }
  /// What the product of a row is multiplied by.
  [[nodiscard]] float scale_of(std::size_t row) const;
};

/// Rows [begin, begin + rows) of a matrix, with their biases and scales.
Matrix rows_of(const Matrix& matrix, std::uint64_t begin, std::uint64_t rows);

/// A norm over every `width` values of a row, or over the first `width` only.
struct NormSpec {
  NormKind kind = NormKind::Rms;
  float eps = 0;
  std::size_t width = 0;
  bool first_only = false;
  std::optional<TensorView> weight, bias;  ///< F32; absent: 1 and 0
  bool own_weights = false;                ///< every run of `width` values has weights of its own
};

/// A factor of queries: 1 + scale·ln(1 + floor((position + offset) / length)).
struct Temperature {
  float scale = 0;  ///< 0: nothing
  std::uint32_t length = 1, offset = 0;
  [[nodiscard]] float at(std::size_t position) const;
};

inline constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};  ///< no RoPE table, no cache

/// Op::Heads. Of matrices: q, k, v, as far as they are there; values that have no matrix have been
/// computed before.
struct HeadsSpec {
  ValueId q = kNoValue, k = kNoValue, v = kNoValue;
  bool q_matrix = true, k_matrix = true, v_matrix = true;
  std::size_t n_heads = 0, n_kv_heads = 0, dim_k = 0, dim_v = 0;
  float clamp = 0;        ///< of q, k and v; 0: none
  bool v_from_k = false;  ///< v is k before its norm
  std::optional<NormSpec> q_norm, k_norm, v_norm;
  bool norm_after_rope = false;
  std::uint32_t rope = kNoIndex;  ///< index in Graph::ropes
  std::size_t rope_begin = 0;     ///< where the rotated part of a head begins
  RopeStyle style = RopeStyle::Adjacent;
  Temperature temperature;
};

/// Op::Attention.
struct AttentionSpec {
  std::size_t n_heads = 0;
  float scale = 0, softcap = 0;
  std::size_t window = 0, chunk = 0;  ///< 0: all positions
  std::optional<TensorView> sinks;    ///< F32 [n_heads]
  std::size_t kv_groups = 0;  ///< latent caches: so many groups of heads read it side by side
};

/// Op::HeadProducts: the part of a head's input that is multiplied, and where its output lies.
struct HeadProductsSpec {
  std::size_t n_heads = 0, in_stride = 0, out_stride = 0;
  bool columns = false;  ///< out = Wᵀ·in
  std::size_t copied =
      0;  ///< so many values after the multiplied ones are copied behind the output
};

enum class Gating : std::uint8_t {
  Softmax,  ///< over all experts
  Sigmoid,
  SoftmaxOfChosen,  ///< over those with the largest products
  SigmoidOfChosen,
};
std::string_view name(Gating gating) noexcept;
std::string_view name(ActivationKind kind) noexcept;

/// Op::Route, and of ExpertsUp and ExpertsDown the numbers.
struct ExpertsSpec {
  std::size_t n = 0, used = 0;
  Gating gating = Gating::Softmax;
  std::size_t groups = 1, groups_used = 1;
  bool normalized = false;
  float scale = 1;                           ///< of every weight
  std::optional<TensorView> selection_bias;  ///< F32 [n]: added when experts are chosen
  bool weight_at_input = false;              ///< gate and up are multiplied, the output is not
  bool groups_by_best = false;  ///< a group counts as its best expert, not as its two best
};

/// Keys and values of one layer, or of several that share them.
struct CacheSpec {
  std::size_t n_kv_heads = 0, dim_k = 0, dim_v = 0;
  std::size_t window = 0;  ///< only so many positions back are ever read; 0: all
  bool latent = false;     ///< values are the first dim_v dimensions of the keys
};

struct Node {
  Op op = Op::MatMul;
  std::string name;  ///< "blk.3.attn_norm"
  ValueId in = kNoValue, out = kNoValue;
  ValueId aux = kNoValue;          ///< FeedForward, ExpertsUp: products of up
  std::uint32_t cache = kNoIndex;  ///< Heads, Attention: index in Graph::caches
  /// Heads: q, k, v; FeedForward: gate, up; Embed: the table (no kernel); HeadProducts: one per
  /// head; ExpertsUp: gates, then ups; ExpertsDown: downs.
  std::vector<Matrix> matrices;
  bool residual = false;      ///< Norm, MatMul: added to out
  float scale = 1;            ///< Embed, MatMul, Add, Scale
  float softcap = 0;          ///< MatMul: out = softcap·tanh(out/softcap), after the scale; 0: not
  std::size_t in_offset = 0;  ///< GateMul: first value of in
  Activation activation;      ///< FeedForward, ExpertsUp, GateMul
  NormSpec norm;
  HeadsSpec heads;
  AttentionSpec attention;
  HeadProductsSpec products;
  ExpertsSpec experts;
  ActTypes acts;  ///< the quantized forms in which out is needed

  /// Of Op::Heads; null: it has none of these.
  struct Projections {
    const Matrix *q, *k, *v;
  };
  [[nodiscard]] Projections projections() const;
  [[nodiscard]] std::uint64_t macs() const;          ///< multiply-adds per token in matrices
  [[nodiscard]] std::uint64_t weight_bytes() const;  ///< bytes of matrices read for one token
  /// Values that the node reads; those it writes. Both: it changes them.
  [[nodiscard]] std::vector<ValueId> reads() const, writes() const;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<ValueInfo> values;
  std::vector<RopeTable> ropes;
  std::vector<CacheSpec> caches;
  /// From this node on (after the last that fills a cache) only tokens whose logits are wanted are
  /// computed.
  std::size_t first_sparse = 0;

  /// One line per node: name, operation, operands and all that it does. forms: also those in which
  /// the kernels in use want values, which change no bit.
  [[nodiscard]] std::string to_string(bool forms = true) const;
  [[nodiscard]] std::string to_string(const Node& node, bool forms = true) const;  ///< its line
};

}  // namespace cria
