// The blocks from which families are described: each adds the nodes of a step, taking its tensors
// by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/architectures/architecture.h"
#include "engine/graph/builder.h"
#include "model/limits.h"

namespace cria {

/// How the output of attention or feed-forward is added to x.
struct Branch {
  std::string_view post_norm =
      {};           ///< name of the layer's norm over it, before it is added; "": none
  float scale = 1;  ///< of what is added where there is no such norm
};

/// Norms of queries and keys, by attn_q_norm and attn_k_norm.
enum class QkNorm : std::uint8_t {
  None,         ///< as they are; then these tensors are not to be in the file
  PerHead,      ///< one weight vector for all heads
  OwnPerHead,   ///< weights [heads × head size]
  WholeVector,  ///< one norm over all heads together
};

/// What attention of a layer does; the default is that of llama. Biases are used where the file has
/// them.
struct AttentionBlock {
  bool rotated = true;                  ///< false: without RoPE
  std::uint32_t rope = kNoIndex;        ///< kNoIndex: the model's usual table
  std::optional<RopeStyle> style = {};  ///< nothing: the architecture's
  std::size_t window = 0;         ///< positions that a token attends to, itself included; 0: all
  std::size_t chunk = 0;          ///< attends within chunks of so many positions; 0: no chunks
  float scale = 0;                ///< 0: 1/sqrt(head size)
  float softcap = 0;              ///< scores s become softcap · tanh(s / softcap); 0: as they are
  float clamp = 0;                ///< queries, keys and values are cut to ±clamp; 0: as they are
  QkNorm qk_norm = QkNorm::None;  ///< before RoPE
  bool norm_after_rope = false;   ///< qk_norm comes behind RoPE
  bool weightless_norm = false;   ///< heads of queries and keys are normed without weights
  bool v_norm = false;            ///< heads of values, too; without attn_v they are the keys
  bool sinks = false;             ///< a score for each head that takes its share and has no value
  Temperature temperature = {};   ///< how queries grow with the position
  std::uint32_t dim_k = 0, dim_v = 0;  ///< sizes of a head's key and value; 0: as the config says
  std::uint32_t shared_cache = kNoIndex;  ///< keys and values of another layer, instead of own ones
  Branch branch = {};                     ///< of attn_output's product
};

/// A dense feed-forward part: down(activation(gate·x) ∘ up·x), or without a gate
/// down(activation(up·x)).
struct FeedForwardBlock {
  Activation activation = {};  ///< of the gate, or of up where there is none; usually SiLU
  bool gated = true;           ///< false: no ffn_gate
  bool fused = false;          ///< ffn_up holds gate and up, one after the other
  bool biases = false;         ///< used where the file has them
  Branch branch = {};          ///< of ffn_down's product
};

/// Experts: how the router's logits choose them and weigh their outputs, and what else is added.
struct ExpertsBlock {
  Gating gating = Gating::Softmax;  ///< what makes weights of the router's logits
  bool normalized = true;           ///< weights of those chosen are divided by their sum
  float scale = 1;                  ///< of the weights
  bool selection_bias = false;      ///< exp_probs_b, where the file has it
  bool weight_at_input = false;  ///< an expert's weight multiplies what it reads, not what it gives
  bool biases = false;           ///< of router and experts; required
  bool shared = false;  ///< a shared expert is required; without it used if the tensors are there
  bool shared_gate = false;                   ///< its output is multiplied by a sigmoid
  std::uint32_t groups = 1, groups_used = 1;  ///< experts are chosen from the best groups only
  Activation activation = {};                 ///< of the gates, also the shared expert's
  Branch branch = {};                         ///< of the sum of all
};

/// Adds the nodes of a model to its graph, layer by layer. A tensor or key that is missing or does
/// not fit is an Error.
class ModelBuilder {
 public:
  ModelBuilder(const Architecture& architecture, const ModelConfig& config, Keys& keys,
               Weights& weights, GraphBuilder& graph);

  const ModelConfig& config;  ///< keys that nearly all families share
  Keys& keys;                 ///< the others: read by the family
  Weights& weights;           ///< tensors by name, checked and counted as used
  GraphBuilder& graph;        ///< to which the nodes are added
  const ValueId x;            ///< the residual stream
  std::uint32_t n_layers;     ///< that are run, the first of the file's
  std::uint32_t layer = 0;    ///< the current one
  bool rms_bias = false;      ///< RMS norms add a bias (phimoe)
  bool norm_weights = true;   ///< false: norms have none (olmo)

  /// x = scale · the token's row of token_embd; before all layers.
  void embed(float scale = 1);
  /// Runs all but the last nextn_predict_layers, which predict further tokens.
  void leave_out_prediction();
  /// describe(layer) for each layer that is run.
  template <class F>
  void layers(F describe) {
    for (layer = 0; layer < n_layers; ++layer) {
      graph.set_prefix(prefix());
      describe(layer);
    }
    graph.set_prefix("");
  }
  /// output_norm, and logits by output (or token_embd), times scale; softcap as in AttentionBlock.
  /// After all layers.
  void output(float scale = 1, float softcap = 0);

  [[nodiscard]] std::string prefix() const { return "blk." + std::to_string(layer) + "."; }
  /// Whether the layer has NAME.weight.
  [[nodiscard]] bool has(const std::string& name) const {
    return weights.has(prefix() + name + ".weight");
  }
  /// The layer's matrix NAME.weight; with NAME.bias if it is there and wanted, and the scale beside
  /// it.
  Matrix matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows, bool bias = false);
  /// n matrices of `rows` rows in one tensor, as one of n·rows; with the scale beside it.
  Matrix stacked_matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows,
                        std::uint64_t n);
  /// The layer's vector, by its full name within the layer ("attn_sinks.weight").
  const TensorView& vector(const std::string& name, std::uint64_t length);
  [[nodiscard]] float number(const std::string& name);  ///< a vector of one finite value

  /// in, or x, normed by the layer's tensor NAME into a value of that name.
  ValueId norm(const std::string& name) { return norm(name, x, "norm"); }
  ValueId norm(const std::string& name, ValueId in, const std::string& value);
  /// out += norm(in) by NAME.
  void add_norm(const std::string& name, ValueId in, ValueId out);
  NormSpec norm_spec(const std::string& name, std::size_t width, bool weighted = true);
  /// out = W·in into a new value.
  ValueId product(const std::string& node, const Matrix& matrix, ValueId in,
                  const std::string& value);
  /// out += scale · in
  void add_scaled(const std::string& node, ValueId in, ValueId out, float scale);
  /// x += W·in the way the branch says.
  void join(const std::string& node, const Matrix& matrix, ValueId in, const Branch& branch);
  /// The same of what is computed already.
  void join(const std::string& node, ValueId in, const Branch& branch);

  /// The usual RoPE of the file: its keys, rope_freqs, longrope's factors.
  RopeSpec rope_spec();
  /// RoPE of windowed layers: rope.freq_base_swa or `base` (0: rope.freq_base), no scaling unless
  /// `scaled`.
  std::uint32_t window_rope(float base, bool scaled);
  /// Which layers have a window: the file's pattern (array or number), or all but the last of every
  /// `period`.
  std::vector<bool> windowed(std::uint32_t period);
  std::uint32_t window(
      std::uint32_t fallback = 0);  ///< attention.sliding_window; 0: the key is required
  /// The same, or 0 where there are none: it says 0, or it is missing.
  std::uint32_t window_if_any(std::uint32_t fallback = 0);

  /// attn_q, attn_k, attn_v (or attn_qkv), attention, attn_output. Returns the cache.
  std::uint32_t attention(ValueId in, const AttentionBlock& a);
  /// Latent attention of DeepSeek, always with compressed keys.
  void latent_attention(ValueId in, float scale, const RopeSpec& rope,
                        const Temperature& temperature);
  /// ffn_gate, ffn_up, ffn_down.
  void feed_forward(ValueId in, const FeedForwardBlock& f);
  /// The same into a value of its own, not yet added to x. suffix: "_shexp" for the shared expert.
  ValueId feed_forward_value(ValueId in, const FeedForwardBlock& f, const std::string& suffix,
                             const std::string& value);
  /// A run of `size` values for every layer in one value, of the token and of x, its embedding.
  ValueId layer_inputs(std::uint32_t size);
  /// Whether the layer has a router: only some layers of a model may have one.
  [[nodiscard]] bool has_experts() const { return has("ffn_gate_inp"); }
  /// Router, experts, shared expert.
  void experts(ValueId in, const ExpertsBlock& e);
  /// Their sum in a value of its own. router_in: what the router reads.
  ValueId experts_value(ValueId in, ValueId router_in, const ExpertsBlock& e);
  /// Gating, norm, scale and groups from the keys. usual: the gating where expert_gating_func is 0
  /// or missing.
  ExpertsBlock experts_by_keys(Gating usual);

 private:
  struct Projections {
    Matrix q;
    std::optional<Matrix> k, v;
  };
  Projections projections(const AttentionBlock& a, std::uint64_t q, std::uint64_t k,
                          std::uint64_t v);
  /// Norms of single heads; not that of a whole vector, which is a node of its own.
  void add_head_norms(HeadsSpec& h, const AttentionBlock& a);
  /// What the attention node computes, with the layer's sinks where there are any.
  AttentionSpec attention_spec(const AttentionBlock& a, const HeadsSpec& h);
  /// Routers: the scale beside one of gemma4's is another.
  Matrix unscaled_matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows,
                         bool bias);
  std::vector<Matrix> expert_matrices(const std::string& name, std::uint64_t cols,
                                      std::uint64_t rows, bool bias);
  std::uint64_t expert_width();
  void expect_usual_router(const ExpertsBlock& e) const;
  bool latent_halves(const char* alone);
  void absorbed_keys(ValueId q, ValueId out, std::uint32_t n, std::uint32_t rank, std::uint32_t rot,
                     std::uint32_t dim_v);
  void expanded_values(ValueId in, ValueId out, std::uint32_t n, std::uint32_t rank,
                       std::uint32_t dim_v);

  const Architecture& architecture_;
};

}  // namespace cria
