// The compute graph: a flat list of nodes, built once per model. It can be printed, timed and
// observed by name. A node says all that it does, so that the executor knows no hyper-parameters.
// What is fused is decided when the graph is built.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/operations.h"
#include "engine/graph/rope.h"
#include "kernels/attention/attention.h"
#include "kernels/kernels.h"
#include "model/error.h"
#include "model/gguf/gguf.h"

namespace cria {

class Adapters;

/// A set of activation types.
class ActTypes {
 public:
  constexpr void add(ActType type) { bits_ |= bit(type); }
  [[nodiscard]] constexpr bool has(ActType type) const { return (bits_ & bit(type)) != 0; }
  [[nodiscard]] bool quantized() const;  ///< true if any of kQuantizedForms is in the set

 private:
  static constexpr std::uint8_t bit(ActType type) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(type));
  }
  std::uint8_t bits_ = 0;
};

struct ValueInfo {
  std::string name;
  std::size_t width = 0;           ///< floats of a row
  std::size_t rows_per_token = 1;  ///< more than 1: one for each expert that a token takes
  ActTypes acts;                   ///< every form in which some node needs it
};

/// An adapter's addition to a product W·in: B·low, with low = A·in (a node of its own).
struct LoraProduct {
  ValueId low = kNoValue;
  TensorView b;  ///< F32 [rank, rows]
  MatMulKernel kernel;
};

/// A weight matrix (a tensor or some of its rows) with the kernel that multiplies by it.
struct Matrix {
  TensorView weight;
  std::optional<TensorView> bias;   ///< F32 [rows]
  MatMulKernel kernel;              ///< run is null: rows are only looked up
  std::optional<TensorView> scale;  ///< F32 factors of the product: [1], [rows] or [matrices]
  std::optional<LoraProduct> lora = {};

  [[nodiscard]] bool multiplies() const { return kernel.run != nullptr; }
  /// Returns the first weight of a row.
  [[nodiscard]] const std::byte* row(std::size_t index) const {
    return weight.data + index * weight.row_bytes();
  }
  /// Returns the factor of a row's product.
  [[nodiscard]] float scale_of(std::size_t row) const;
};

/// Returns rows [begin, begin + rows) of a matrix, with their biases and scales.
Matrix rows_of(const Matrix& matrix, std::uint64_t begin, std::uint64_t rows);

/// Keys and values of one layer, or of several that share them.
struct CacheSpec {
  std::size_t n_kv_heads = 0, dim_k = 0, dim_v = 0;
  std::size_t window = 0;  ///< positions back that are read; 0: all
  bool latent = false;     ///< values are the first dim_v dimensions of the keys
};

/// The state that a recurrent layer keeps of a sequence's earlier positions: float32 values in the
/// layout of kernels/recurrent/recurrent.h.
struct StateSpec {
  std::size_t floats = 0;    ///< size of the state of a sequence
  std::size_t rollback = 0;  ///< max positions that may be dropped again
  /// The part that a snapshot at a page's end holds: [rows][units][unit_floats] from `offset` on. A
  /// unit is a head or a channel.
  std::size_t offset = 0, rows = 1, units = 0, unit_floats = 0;

  [[nodiscard]] std::size_t snapshot_floats() const { return rows * units * unit_floats; }
  /// Returns the state that has only n units.
  [[nodiscard]] StateSpec with_units(std::size_t n) const {
    return {floats / units * n, rollback, offset / units * n, rows, n, unit_floats};
  }
};

/// The part of the caches and states that a rank holds.
struct HeldUnits {
  std::vector<std::size_t> heads;   ///< KV heads by cache; empty: all
  std::vector<std::size_t> states;  ///< units by state; empty: all
};

struct Node {
  Op op;
  std::string name;  ///< "blk.3.attn_norm"
  ValueId in = kNoValue, out = kNoValue;
  std::vector<Matrix> matrices = {};  ///< in the order that the operation defines
  NodeFacts facts = {};               ///< set by add()
  ActTypes acts = {};                 ///< the quantized forms in which out is needed

  /// The operation if it is a T, else null.
  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&op);
  }
  /// f(operation)
  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(std::forward<F>(f), op);
  }
  [[nodiscard]] std::uint64_t macs() const;          ///< multiply-adds per token in matrices
  [[nodiscard]] std::uint64_t weight_bytes() const;  ///< bytes of matrices read for one token
  /// Values that the node reads and writes. A value in both is changed.
  [[nodiscard]] std::vector<ValueId> reads() const, writes() const;
};

/// The last node's product.
enum class Head : std::uint8_t {
  Vocabulary,  ///< logits of the next token
  Labels,      ///< outputs of a classifier
  None,        ///< the hidden states are the result
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<ValueInfo> values;
  std::vector<RopeTable> ropes;
  std::vector<CacheSpec> caches;
  std::vector<StateSpec> states;  ///< of recurrent layers
  /// From this node on, after the last that fills a cache, only tokens with requested logits are
  /// computed.
  std::size_t first_sparse = 0;
  Head head = Head::Vocabulary;
  ValueId hidden = kNoValue;  ///< rows of the last hidden states, which pooling reads
  /// A prediction layer's: hidden states of the trunk, written before a pass. kNoValue: none.
  ValueId input = kNoValue;
  ValueId logits = kNoValue;  ///< output of the last node; kNoValue: Head::None
  /// Scales of adapters, by file, for sequences without own ones.
  std::vector<float> adapter_scales;
  /// False: an encoder, whose tokens attend to later ones. A text is one slice of a batch.
  bool causal = true;

  /// Nodes that every pass runs: all but the one that computes logits.
  [[nodiscard]] std::size_t body() const { return nodes.size() - (logits == kNoValue ? 0 : 1); }
  /// Max positions at the end of a sequence that can be dropped without evaluating others again.
  [[nodiscard]] std::size_t rollback() const;
  /// One line per node: name, operation, operands and all that it does. forms: also the forms in
  /// which the kernels in use need values; they do not change the result.
  [[nodiscard]] std::string to_string(bool forms = true) const;
  [[nodiscard]] std::string to_string(const Node& node, bool forms = true) const;  ///< its line
};

/// "blk.0.attn_q.weight Q8_0[256, 256]"
std::string tensor_text(const TensorView& tensor);
/// ", times 2", or "" for 1
std::string factor_text(float factor);
/// ", rms norm of 256, eps 1e-05 …"; of: what is normed, "q ".
std::string norm_text(const NormSpec& norm, std::string_view of = {});
/// "silu", "xielu of 0.8, 0.8, 0.5, 1e-06"
std::string activation_text(const Activation& activation);

/// Makes a graph node by node.
class GraphBuilder {
 public:
  /// kernels must outlive the graph.
  explicit GraphBuilder(const KernelSet& kernels) : kernels_(kernels) {}

  /// Sets the prefix of the names of nodes that follow: "blk.3.".
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  /// Returns the value of this name and width, which all layers share.
  ValueId value(const std::string& name, std::size_t width, std::size_t rows_per_token = 1);
  [[nodiscard]] std::size_t width(ValueId id) const { return graph_.values[id].width; }
  /// Returns the index of a table in Graph::ropes; equal tables are made once.
  std::uint32_t rope(const RopeSpec& spec);
  /// Returns the index of a new cache in Graph::caches.
  std::uint32_t cache(const CacheSpec& spec);
  [[nodiscard]] const CacheSpec& cache(std::uint32_t index) const { return graph_.caches[index]; }
  /// Returns the index of a new state in Graph::states.
  std::uint32_t state(const StateSpec& spec);

  /// Throws Error naming tensor and type if no kernel multiplies by it.
  [[nodiscard]] Matrix matrix(const TensorView& weight, std::optional<TensorView> bias = {}) const;

  void add(Op op, std::string_view name, ValueId in, ValueId out,
           std::vector<Matrix> matrices = {});

  /// Adds the products of adapters to the graph. Throws Error naming the tensor unless a
  /// dense operation has it. file: the model's, of which the matrices are views
  /// (lora/adapters.cpp).
  void adapt(const Adapters& adapters, const GgufFile& file);

  void set_input(ValueId input) { graph_.input = input; }  ///< sets Graph::input
  /// Sets Graph's members of the same names.
  void set_outputs(Head head, ValueId hidden, ValueId logits, bool causal);

  /// Decides which forms of values are needed and for which tokens. The builder is empty
  /// afterwards.
  Graph finish();

 private:
  void add_forms();

  Graph graph_;
  const KernelSet& kernels_;
  std::string prefix_;
};

/// Returns the Error for a node that computed NaN or infinity. It names the node and the first of
/// its tensors with such a value, or all of them if their values are finite. Attention has no
/// tensors but sinks: the node before it, whose keys and values it reads, is checked instead.
/// values: what the node computed. Reads all values of the tensors.
Error not_finite(const GgufFile& file, const Graph& graph, const Node& node,
                 std::span<const float> values);

}  // namespace cria
