// The operations of the compute graph: their parameters, and what the engine must know of them. To
// add one, declare its struct here, list it in `Op`, and define its functions in
// engine/operations/.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/graph/unit_ranges.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/gguf/gguf.h"
#include "model/token_id.h"

namespace cria {

struct CacheSpec;
struct StateSpec;
struct Graph;
struct Matrix;
struct Node;
class Pass;
class RowChunks;

/// An intermediate value: rows of floats, one or several per token. Index in Graph::values.
using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};
inline constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};  ///< no RoPE table, no cache

/// A norm over every `width` values of a row, or over the first `width` only.
struct NormSpec {
  NormKind kind = NormKind::Rms;
  float eps = 0;
  std::size_t width = 0;
  bool first_only = false;
  std::optional<TensorView> weight, bias;  ///< F32; absent: 1 and 0
  bool own_weights = false;                ///< each group of `width` values has its own weights

  /// Norms group `group` of a row; in and out may be equal.
  void apply(const KernelSet& kernels, std::size_t group, const float* in, float* out) const;
};

/// A factor of queries: 1 + scale·ln(1 + floor((position + offset) / length)).
struct Temperature {
  float scale = 0;  ///< 0: no factor
  std::uint32_t length = 1, offset = 0;
  [[nodiscard]] float at(std::size_t position) const;
};

/// The function that makes weights of experts from the router's products.
enum class Gating : std::uint8_t {
  Softmax,          ///< over all experts
  Sigmoid,          ///< for each expert independently
  SoftmaxOfChosen,  ///< over the chosen experts, which have the largest products
  SigmoidOfChosen,
};

/// The units of a node that a rank computes.
enum class UnitsOfRank : std::uint8_t {
  All,      ///< every rank computes all units
  Share,    ///< neighbouring units, in proportion to the shares
  Free,     ///< the units that readers need if these read only some columns, else as Share
  Follows,  ///< as Free, else the units that read what the rank has of an input, else all
};

/// The way ranks divide a node. Unit u writes columns [offset + u·width, + width) of out. Free and
/// Follows: also of more_writes; and other columns of out stay as they are.
struct Division {
  UnitsOfRank of_rank = UnitsOfRank::All;
  std::size_t units = 0, width = 1, offset = 0;
  std::size_t together = 1;  ///< parts begin at multiples of this if there are groups for all ranks
  std::size_t groups = std::numeric_limits<std::size_t>::max();
};

/// Columns of a value that unit u reads: `width` from offset + (u / repeat mod wrap)·stride on.
struct UnitRead {
  ValueId value = kNoValue;
  std::size_t offset = 0, width = 1, stride = width;
  std::size_t repeat = 1, wrap = std::numeric_limits<std::size_t>::max();

  /// Returns the columns that some units read.
  [[nodiscard]] UnitRanges columns(const UnitRanges& units) const;
};

/// An operation's answers to all questions of the engine about a node.
struct NodeFacts {
  std::string text;             ///< details to print: ", rms norm of 256, eps 1e-05"
  std::string inputs, outputs;  ///< printed behind the names of in and out

  /// Values read and written in addition to in, out and adapters' products.
  std::vector<ValueId> more_reads = {}, more_writes = {};
  bool changes_out = false;              ///< reads out, too
  bool fills_cache = false;              ///< must run for every token of a prompt
  std::vector<TensorView> tensors = {};  ///< all but matrices

  /// True if each matrix multiplies whole rows of in. Such inputs may be packed once for all rows
  /// and take part in an imatrix, and adapters may add to their products.
  bool dense = false;
  bool quantizes_input = false;  ///< does not read the quantized forms of in
  /// Every `group` successive matrices are of one kind (experts or heads); a token uses
  /// `group_used` of them.
  std::size_t group = 1, group_used = 1;

  bool small_input = false;  ///< every rank computes in instead of a part
  Division division = {};
  std::vector<UnitRead> unit_reads = {};  ///< absent values are read whole by each unit
  std::uint32_t state = kNoIndex;         ///< index in Graph::states, which has the same units

  /// Needs of the work memory, without the needs of products.
  std::size_t scratch = 0;         ///< bytes per thread
  std::size_t countdowns = 0;      ///< WorkMemory::pending
  std::size_t segment_floats = 0;  ///< state of one token after one segment of keys
  std::size_t experts = 0, experts_used = 0;
};

using RowsVisitor = std::function<void(const Matrix& m, std::size_t begin, std::size_t end)>;

/// Functions that most operations share. Each operation must define kName, facts() and run(); it
/// hides what it does differently.
struct OpBase {
  /// Visits the rows that a rank reads. kv: the KV heads that it computes.
  static void own_rows(const Node& node, const UnitRanges& own, UnitRange kv,
                       const RowsVisitor& visit);
  /// Returns how this rank's units are cut into chunks of the team.
  static RowChunks chunks(const Node& node, const Pass& pass);
  /// Returns the weights that a chunk reads first; null: none, or not known yet.
  static const std::byte* first_weights(const Node& node, const Pass& pass, std::size_t chunk);
  /// Returns the rows of out that the node writes now.
  static UnitRange rows_written(const Node& node, const Pass& pass);
};

// operations/rows.cpp: operations on single rows

/// out = scale · a row of the table, matrices[0], which has no kernel.
struct EmbedOp : OpBase {
  static constexpr std::string_view kName = "embed";
  enum class Row : std::uint8_t { Token, Position, Segment };
  float scale = 1;
  Row row = Row::Token;
  /// Segment: the row is 1 after the text's first token of this id, else 0.
  TokenId separator = -1;

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out = norm(in), or out += norm(in), where in becomes its norm, too.
struct NormOp : OpBase {
  static constexpr std::string_view kName = "norm";
  NormSpec norm;
  bool residual = false;

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out[out_offset …] += scale · in, for each run as wide as in.
struct AddOp : OpBase {
  static constexpr std::string_view kName = "add";
  float scale = 1;
  std::size_t out_offset = 0;

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out *= scale, and each column by its factor.
struct ScaleOp : OpBase {
  static constexpr std::string_view kName = "scale";
  float scale = 1;
  std::optional<TensorView> factors = {};  ///< F32 [columns of out]

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out *= sigmoid(in[0])
struct GateOp : OpBase {
  static constexpr std::string_view kName = "gate";

  static NodeFacts facts(const Graph& graph, const Node& node);
  static void run(const Node& node, Pass& pass);
};

/// out = act(out)·in[in_offset …], or act(out) without in
struct GateMulOp : OpBase {
  static constexpr std::string_view kName = "gate_mul";
  Activation activation;
  std::size_t in_offset = 0;

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out[out_offset …] = `runs` runs of in of `length` values, one every `stride` from in_offset on.
struct TakeOp : OpBase {
  static constexpr std::string_view kName = "take";
  std::size_t runs = 0, length = 0, stride = 0, in_offset = 0, out_offset = 0;

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// Streams (Gemma 3n): n parts of a row of equal width. out[k] = in[k] + Σ_j c[k·J + j]·terms[j],
/// where c = coefficients + bias, and terms has J parts of that width. j ascends.
struct MixOp : OpBase {
  static constexpr std::string_view kName = "mix";
  std::size_t n = 1;
  ValueId terms = kNoValue, coefficients = kNoValue;  ///< coefficients: n·J columns
  float bias = 0;

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out *= rms(in) / rms(out), in double precision; a row of zeros stays as it is.
struct MatchRmsOp : OpBase {
  static constexpr std::string_view kName = "match_rms";

  static NodeFacts facts(const Graph& graph, const Node& node);
  static void run(const Node& node, Pass& pass);
};

/// out = max(0, out - (mean + deviations·s)), with mean and standard deviation s of the row in
/// double precision.
struct ThresholdOp : OpBase {
  static constexpr std::string_view kName = "threshold";
  float deviations = 0;

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

// operations/products.cpp

/// Columns [begin, end) of a product with factors A of adapters, which are of one file.
struct AdapterPart {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t file = 0;  ///< index of its scale
};

/// out = softcap·tanh(scale·(W·in + bias) / softcap), or out += W·in + bias.
struct MatMulOp : OpBase {
  static constexpr std::string_view kName = "matmul";
  bool residual = false;
  float scale = 1, softcap = 0;  ///< softcap 0: none
  /// Parts that a sequence's scales multiply; not computed if all scales of a batch are 0.
  std::vector<AdapterPart> adapters = {};
  bool by_all = false;  ///< few rows: every rank computes them, which is faster than gathering

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out = act(gate·in)·(up·in), or act(up·in). Matrices: gate and up, or only up.
struct FeedForwardOp : OpBase {
  static constexpr std::string_view kName = "feed_forward";
  ValueId up = kNoValue;  ///< products of up if there is a gate
  Activation activation;

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out of head h = matrices[h]·(in of head h).
struct HeadProductsOp : OpBase {
  static constexpr std::string_view kName = "head_products";
  std::size_t n_heads = 0, in_stride = 0, out_stride = 0;
  bool columns = false;  ///< multiplies by the transposed matrix
  std::size_t copied =
      0;  ///< values that are copied from behind the factors to behind the products

  NodeFacts facts(const Graph& graph, const Node& node) const;
  static void own_rows(const Node& node, const UnitRanges& own, UnitRange kv,
                       const RowsVisitor& visit);
  static RowChunks chunks(const Node& node, const Pass& pass);
  static const std::byte* first_weights(const Node& node, const Pass& pass, std::size_t chunk);
  void run(const Node& node, Pass& pass) const;
};

// operations/heads.cpp

/// q (out), k and v from W·in, normed and rotated; k and v go into a cache. Matrices: q, k and v,
/// except for values that earlier nodes have computed.
struct HeadsOp : OpBase {
  static constexpr std::string_view kName = "heads";
  ValueId k = kNoValue, v = kNoValue;
  bool q_matrix = true, k_matrix = true, v_matrix = true;
  std::size_t n_heads = 0, n_kv_heads = 0, dim_k = 0, dim_v = 0;
  float clamp = 0;        ///< limit of |q|, |k| and |v|; 0: none
  bool v_from_k = false;  ///< v is k before its norm
  std::optional<NormSpec> q_norm, k_norm, v_norm;
  bool norm_after_rope = false;
  std::uint32_t rope = kNoIndex;  ///< index in Graph::ropes
  std::size_t rope_begin = 0;     ///< first rotated value of a head
  RopeStyle style = RopeStyle::Adjacent;
  Temperature temperature;
  std::uint32_t cache = kNoIndex;  ///< index in Graph::caches; kNoIndex: no keys here

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void own_rows(const Node& node, const UnitRanges& own, UnitRange kv,
                const RowsVisitor& visit) const;
  RowChunks chunks(const Node& node, const Pass& pass) const;
  const std::byte* first_weights(const Node& node, const Pass& pass, std::size_t chunk) const;
  void run(const Node& node, Pass& pass) const;
};

// operations/attention.cpp

/// out = softmax(q·K)·V, with q in `in`.
struct AttentionOp : OpBase {
  static constexpr std::string_view kName = "attention";
  std::size_t n_heads = 0;
  float scale = 0, softcap = 0;
  bool causal = true;                 ///< false: tokens also attend to later ones
  std::size_t window = 0, chunk = 0;  ///< 0: all positions; not causal: window on each side
  std::optional<TensorView> sinks;    ///< F32 [n_heads]
  std::size_t kv_groups = 0;          ///< latent caches: groups of heads that read them in parallel
  std::uint32_t cache = kNoIndex;     ///< index in Graph::caches

  /// Returns the number of query heads that read the same keys.
  std::size_t heads_together(const CacheSpec& spec) const;
  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

// operations/experts.cpp

/// Chooses the experts of each token, and their weights, from the router's products in `in`.
struct RouteOp : OpBase {
  static constexpr std::string_view kName = "route_tokens";
  std::size_t n = 0, used = 0;  ///< number of experts; of experts per token
  Gating gating = Gating::Softmax;
  std::size_t groups = 1, groups_used = 1;
  bool normalized = false;
  float scale = 1;                           ///< factor of every weight
  std::optional<TensorView> selection_bias;  ///< F32 [n]: added only to choose experts
  bool groups_by_best = false;   ///< rank groups by their best expert instead of their two best
  bool weight_at_input = false;  ///< for ExpertsUpOp

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// FeedForwardOp for every chosen expert. Matrices: all gates if there are any, then all ups.
struct ExpertsUpOp : OpBase {
  static constexpr std::string_view kName = "experts_up";
  std::size_t n = 0, used = 0;   ///< as RouteOp
  bool weight_at_input = false;  ///< multiplies products of gate and up by the expert's weight
  ValueId up = kNoValue;         ///< products of up if there are gates
  Activation activation;

  NodeFacts facts(const Graph& graph, const Node& node) const;
  static const std::byte* first_weights(const Node& node, const Pass& pass, std::size_t chunk);
  UnitRange rows_written(const Node& node, const Pass& pass) const;
  void run(const Node& node, Pass& pass) const;
};

/// out = Σ weight·(down·in) over the chosen experts.
struct ExpertsDownOp : OpBase {
  static constexpr std::string_view kName = "experts_down";
  std::size_t n = 0, used = 0;   ///< as RouteOp
  bool weight_at_input = false;  ///< weights are in the products already

  NodeFacts facts(const Graph& graph, const Node& node) const;
  static RowChunks chunks(const Node& node, const Pass& pass);
  static const std::byte* first_weights(const Node& node, const Pass& pass, std::size_t chunk);
  void run(const Node& node, Pass& pass) const;
};

// operations/recurrent.cpp: layers whose state outlives a batch. The formulas are in
// kernels/README.md.

/// out[out_offset …] = causal convolution of `channels` columns of in.
struct ConvolutionOp : OpBase {
  static constexpr std::string_view kName = "convolution";
  std::size_t channels = 0, taps = 0;
  TensorView weights;              ///< F32 [taps, channels]
  std::optional<TensorView> bias;  ///< F32 [channels]
  bool silu = false;
  std::size_t in_offset = 0, out_offset = 0;
  /// First columns of in by which inputs and outputs are multiplied.
  std::optional<std::size_t> factor, out_factor;
  std::uint32_t state = kNoIndex;  ///< index in Graph::states

  [[nodiscard]] StateSpec state_spec() const;
  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// dt = softplus(in + bias) and out = exp(dt·a), or out = dt without a.
struct DecayOp : OpBase {
  static constexpr std::string_view kName = "decay";
  std::size_t heads = 0, per_head = 1, in_offset = 0;
  std::optional<TensorView> bias, a;  ///< F32 [heads × per_head], [heads]
  ValueId dt = kNoValue;              ///< kNoValue: not kept

  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out = the gated delta rule, KDA or Mamba-2 over columns of in.
struct RecurrenceOp : OpBase {
  static constexpr std::string_view kName = "recurrence";
  std::size_t heads = 0, key_dim = 0, value_dim = 0;
  std::size_t key_heads = 0,
              key_repeat = 1;  ///< head h reads key head h / key_repeat mod key_heads
  bool delta = false;          ///< false: Mamba-2
  bool key_decay = false;      ///< a decay per key dimension (KDA)
  float norm_eps = 0, q_scale = 1;
  std::size_t q_offset = 0, k_offset = 0, v_offset = 0;  ///< columns of in
  ValueId beta = kNoValue, decay = kNoValue;
  std::optional<TensorView> skip;  ///< F32 [heads]
  std::uint32_t state = kNoIndex;  ///< index in Graph::states

  [[nodiscard]] StateSpec state_spec() const;
  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

/// out = Mamba-1's selective scan of in.
struct ScanOp : OpBase {
  static constexpr std::string_view kName = "selective_scan";
  std::size_t channels = 0, state_dim = 0;
  ValueId dt = kNoValue, b = kNoValue, c = kNoValue;
  TensorView a, skip;              ///< F32 [state_dim, channels], [channels]
  std::uint32_t state = kNoIndex;  ///< index in Graph::states

  [[nodiscard]] StateSpec state_spec() const;
  NodeFacts facts(const Graph& graph, const Node& node) const;
  void run(const Node& node, Pass& pass) const;
};

using Op =
    std::variant<EmbedOp, NormOp, HeadsOp, HeadProductsOp, AttentionOp, MatMulOp, FeedForwardOp,
                 RouteOp, ExpertsUpOp, ExpertsDownOp, AddOp, ScaleOp, GateOp, GateMulOp, TakeOp,
                 MixOp, MatchRmsOp, ThresholdOp, ConvolutionOp, DecayOp, RecurrenceOp, ScanOp>;

/// "matmul", "feed_forward"
std::string_view name(const Op& op);

}  // namespace cria
