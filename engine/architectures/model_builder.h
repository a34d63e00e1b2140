// The blocks that describe families: each takes its tensors by name and adds the nodes of a step.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/architectures/architecture.h"
#include "engine/graph/graph.h"
#include "model/limits.h"

namespace cria {

/// Treatment of the output of attention or feed-forward before it is added to x.
struct Branch {
  std::string_view post_norm = {};  ///< the layer's norm of it before it is added; "": none
  float scale = 1;                  ///< factor of the output if it has no such norm
};

/// Norms of queries and keys, with tensors attn_q_norm and attn_k_norm.
enum class QkNorm : std::uint8_t {
  None,         ///< no norm; the file must not have these tensors
  PerHead,      ///< one weight vector for all heads
  OwnPerHead,   ///< weights [heads × head size]
  WholeVector,  ///< one norm over all heads together
};

/// Attention of a layer; the default is llama's. Biases are used if the file has them.
struct AttentionBlock {
  bool rotated = true;                  ///< false: without RoPE
  std::uint32_t rope = kNoIndex;        ///< kNoIndex: the model's usual table
  std::optional<RopeStyle> style = {};  ///< none: the architecture's
  std::size_t window = 0;         ///< positions that a token attends to, itself included; 0: all
  std::size_t chunk = 0;          ///< positions of a chunk within which tokens attend; 0: no chunks
  float scale = 0;                ///< 0: 1/sqrt(head size)
  float softcap = 0;              ///< scores s become softcap · tanh(s / softcap); 0: unchanged
  float clamp = 0;                ///< limit of |q|, |k| and |v|; 0: none
  QkNorm qk_norm = QkNorm::None;  ///< before RoPE
  bool norm_after_rope = false;   ///< qk_norm follows RoPE
  bool weightless_norm = false;   ///< norms heads of queries and keys without weights
  bool v_norm = false;            ///< norms heads of values, too; without attn_v, v is k
  bool gated = false;  ///< attn_q has behind each head's query a gate, whose sigmoid multiplies the
                       ///< head's sum
  bool sinks = false;  ///< each head has a score that takes its share and has no value
  Temperature temperature = {};           ///< factor of queries by position
  std::uint32_t dim_k = 0, dim_v = 0;     ///< sizes of a head's key and value; 0: the config's
  std::uint32_t shared_cache = kNoIndex;  ///< another layer's keys and values instead of own ones
  Branch branch = {};                     ///< product of attn_output
};

/// A dense feed-forward network: down(activation(gate·x) ∘ up·x), or without a gate
/// down(activation(up·x)).
struct FeedForwardBlock {
  Activation activation = {};  ///< activation of the gate, or of up if not gated; usually SiLU
  bool gated = true;           ///< false: no ffn_gate
  bool fused = false;          ///< ffn_up holds gate and up, one after the other
  bool biases = false;         ///< uses biases if the file has them
  Branch branch = {};          ///< product of ffn_down
};

/// Experts: how the router's products choose and weigh them, and the shared expert.
struct ExpertsBlock {
  Gating gating = Gating::Softmax;
  bool gated = true;             ///< false: experts and the shared one have no gate
  bool normalized = true;        ///< weights of chosen experts are divided by their sum
  float scale = 1;               ///< factor of the weights
  bool selection_bias = false;   ///< uses exp_probs_b if the file has it
  bool weight_at_input = false;  ///< an expert's weight multiplies its input instead of its output
  bool biases = false;           ///< requires biases of router and experts
  bool shared = false;           ///< requires a shared expert; else it is optional
  bool shared_gate = false;      ///< multiplies its output by a sigmoid
  std::uint32_t groups = 1, groups_used = 1;  ///< experts are chosen from the best groups only
  Activation activation = {};  ///< activation of the gates, and of the shared expert's
  Branch branch = {};          ///< sum of all experts
};

/// Layers of the usual form: x += attention(attn_norm(x)), x += feed-forward(ffn_norm(x)).
struct LayerBlock {
  AttentionBlock attention = {};
  FeedForwardBlock feed_forward = {};
  std::optional<ExpertsBlock> experts =
      {};  ///< for layers with a router; none: they cannot have one
  std::string ffn_norm = "ffn_norm";
};

/// Adds the nodes of a model to its graph, layer by layer. Throws Error if a tensor or key is
/// missing or does not fit.
class ModelBuilder {
 public:
  ModelBuilder(const Architecture& architecture, const ModelConfig& config, Keys& keys,
               Weights& weights, GraphBuilder& graph, GraphPart part = GraphPart::Trunk);

  const ModelConfig& config;  ///< keys that nearly all families share
  Keys& keys;                 ///< the other keys, which the family reads
  Weights& weights;           ///< tensors by name, checked and counted as used
  GraphBuilder& graph;
  const ValueId x;                         ///< the residual stream
  std::uint32_t n_layers;                  ///< layers to run, the first of the file
  std::uint32_t layer = 0;                 ///< the current layer
  bool rms_bias = false;                   ///< RMS norms add a bias (phimoe)
  bool norm_weights = true;                ///< false: norms have no weights (olmo)
  bool causal = true;                      ///< false: an encoder; set by encoder()
  std::string final_norm = "output_norm";  ///< name of the norm before the output

  /// Makes all attention look both ways. Throws Error if attention.causal says otherwise.
  void encoder();
  /// x = scale · the token's row of token_embd. Call it before all layers.
  void embed(float scale = 1);
  /// Leaves the last nextn_predict_layers out of the trunk.
  void leave_out_prediction();
  /// describe(layer) for each layer of the trunk, or for the first prediction layer.
  template <class F>
  void layers(F describe) {
    const std::uint32_t first = predicts() ? n_layers : 0, end = predicts() ? first + 1 : n_layers;
    for (layer = first; layer < end; ++layer) {
      graph.set_prefix(prefix());
      if (predicts()) begin_prediction();
      describe(layer);
    }
    graph.set_prefix("");
  }
  /// embed(), layers(describe), output(logit_scale)
  template <class F>
  void decoder(F describe, float logit_scale = 1) {
    embed();
    layers(describe);
    output(logit_scale);
  }
  /// A decoder whose layers are all alike.
  void decoder(const LayerBlock& one);
  /// Adds output_norm and logits by output (or token_embd), times scale; softcap as in
  /// AttentionBlock. A file with cls.output has that classifier instead of logits. Call it after
  /// all layers.
  void output(float scale = 1, float softcap = 0);
  /// Adds output_norm and returns its output.
  ValueId output_norm();
  /// Ends the graph with these hidden states, and with the classifier if the file has one.
  void vectors(ValueId hidden);

  [[nodiscard]] std::string prefix() const { return "blk." + std::to_string(layer) + "."; }
  /// Returns true if the layer has NAME.weight.
  [[nodiscard]] bool has(const std::string& name) const {
    return weights.has(prefix() + name + ".weight");
  }
  /// Returns the layer's matrix NAME.weight with its scale, and with NAME.bias if `bias` and the
  /// file has it.
  Matrix matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows, bool bias = false);
  /// Returns n matrices of `rows` rows in one tensor, as one matrix of n·rows with its scale.
  Matrix stacked_matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows,
                        std::uint64_t n);
  /// Returns the layer's vector by its full name within the layer ("attn_sinks.weight").
  const TensorView& vector(const std::string& name, std::uint64_t length);
  [[nodiscard]] float number(const std::string& name);  ///< a vector of one finite value

  /// Norms in, or x, by the layer's tensor NAME into a value.
  ValueId norm(const std::string& name) { return norm(name, x, "norm"); }
  ValueId norm(const std::string& name, ValueId in, const std::string& value);
  /// out += norm(in) by the layer's tensor NAME.
  void add_norm(const std::string& name, ValueId in, ValueId out);
  NormSpec norm_spec(const std::string& name, std::size_t width, bool weighted = true);
  /// out = W·in into a new value. by_all: as MatMulOp.
  ValueId product(const std::string& node, const Matrix& matrix, ValueId in,
                  const std::string& value, bool by_all = false);
  /// out += scale · in
  void add_scaled(const std::string& node, ValueId in, ValueId out, float scale);
  /// x += W·in as the branch says.
  void join(const std::string& node, const Matrix& matrix, ValueId in, const Branch& branch);
  /// x += in as the branch says.
  void join(const std::string& node, ValueId in, const Branch& branch);

  /// Returns the usual RoPE of the file: its keys, rope_freqs, longrope's factors.
  RopeSpec rope_spec();
  /// Returns the RoPE of sliding-window layers: rope.freq_base_swa or `base` (0: rope.freq_base),
  /// without scaling unless `scaled`.
  std::uint32_t window_rope(float base, bool scaled);
  /// Returns by layer if it has a window: the file's pattern (array or number), or all but the last
  /// of every `period`.
  std::vector<bool> windowed(std::uint32_t period);
  /// Returns attention.sliding_window. fallback 0: the key is required.
  std::uint32_t window(std::uint32_t fallback = 0);
  /// Returns the same, or 0 if the key is 0 or missing.
  std::uint32_t window_if_any(std::uint32_t fallback = 0);

  /// Adds attn_q, attn_k, attn_v (or attn_qkv), attention, attn_output. Returns the cache.
  std::uint32_t attention(ValueId in, const AttentionBlock& a);
  /// Adds DeepSeek's latent attention, always with compressed keys. rope: none leaves keys and
  /// queries as they are.
  void latent_attention(ValueId in, float scale, const std::optional<RopeSpec>& rope,
                        const Temperature& temperature);
  /// Adds a recurrent layer (recurrent_block.cpp): LFM2's short convolution.
  void short_convolution(ValueId in);
  /// The gated delta rule. in_turn: value head h has key head h mod their number, not h div the
  /// number of value heads per key head.
  void delta_rule(ValueId in, bool in_turn);
  void kimi_delta_attention(ValueId in);  ///< KDA: the delta rule with a decay per key dimension
  void mamba2(ValueId in, const Branch& branch = {});
  /// norms: of step sizes and both inputs, with the tensors ssm_dt_norm, ssm_b_norm, ssm_c_norm.
  void mamba1(ValueId in, bool norms);
  /// Adds ffn_gate, ffn_up, ffn_down.
  void feed_forward(ValueId in, const FeedForwardBlock& f);
  /// Adds the same into a new value instead of x. suffix: "_shexp" for the shared expert.
  ValueId feed_forward_value(ValueId in, const FeedForwardBlock& f, const std::string& suffix,
                             const std::string& value);
  /// Returns true if the layer has a router: only some layers of a model may have one.
  [[nodiscard]] bool has_experts() const { return has("ffn_gate_inp"); }
  /// Adds e if the layer has a router, else f.
  void experts_or_feed_forward(ValueId in, const ExpertsBlock& e, const FeedForwardBlock& f = {});
  /// Adds router, experts, shared expert.
  void experts(ValueId in, const ExpertsBlock& e);
  /// Adds router and experts, and returns their sum. router_in: input of the router.
  ValueId experts_value(ValueId in, ValueId router_in, const ExpertsBlock& e);
  /// Reads gating, norm, scale and groups from the keys. usual: the gating if expert_gating_func is
  /// 0 or missing.
  ExpertsBlock experts_by_keys(Gating usual);

 private:
  struct Projections {
    Matrix q;
    std::optional<Matrix> k, v;
  };
  Projections projections(const AttentionBlock& a, std::uint64_t q, std::uint64_t k,
                          std::uint64_t v);
  /// Adds norms of single heads. The norm of a whole vector is a node of its own.
  void add_head_norms(HeadsOp& h, const AttentionBlock& a);
  /// Returns the attention node's operation, but the cache.
  AttentionOp attention_op(const AttentionBlock& a, const HeadsOp& h);
  /// Returns a router's matrix without the scale tensor that gemma4 has for another purpose.
  Matrix unscaled_matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows,
                         bool bias);
  std::vector<Matrix> expert_matrices(const std::string& name, std::uint64_t cols,
                                      std::uint64_t rows, bool bias);
  std::uint64_t width_of(std::initializer_list<std::string> downs, const char* key);
  void expect_usual_router(const ExpertsBlock& e) const;
  [[nodiscard]] bool predicts() const { return part_ == GraphPart::Prediction; }
  /// x = the table's rows of tokens, times the scale of embed().
  void add_embedding(const std::string& table);
  /// x = eh_proj of the normed embedding of the next token and the trunk's normed hidden state.
  void begin_prediction();
  /// Returns the prediction layer's own tensor if the file has it, else the trunk's.
  [[nodiscard]] std::string own_or(const std::string& own, const std::string& usual) const;
  bool latent_halves(const char* alone);
  /// Sizes of a recurrent layer by the ssm keys.
  struct StateSpace {
    std::uint32_t taps, inner, state, heads, groups;
  };
  StateSpace state_space();
  void require_divisor(const char* key, std::uint64_t part, std::uint64_t whole) const;
  /// Adds a convolution named `name` of columns of in, with its state.
  void convolve(const std::string& name, ConvolutionOp op, ValueId in, ValueId out);
  /// Adds a convolution of all columns of in, with SiLU.
  void convolve(const std::string& name, std::uint32_t taps, ValueId in, ValueId out,
                std::size_t out_offset = 0);
  /// a: the shape of ssm_a. dt: as DecayOp.
  void decay(std::uint64_t heads, std::uint64_t per_head, const Weights::Shape& a, ValueId steps,
             ValueId out, ValueId dt);
  void recur(RecurrenceOp op, ValueId in, ValueId out);
  /// Norms each head of `sums`, multiplies it by act(gate), and adds the product of `name` to x.
  void gated_output(const std::string& name, ActivationKind act, std::uint32_t head, ValueId sums,
                    ValueId gate);
  void absorbed_keys(ValueId q, ValueId out, std::uint32_t n, std::uint32_t rank, std::uint32_t rot,
                     std::uint32_t dim_v);
  void expanded_values(ValueId in, ValueId out, std::uint32_t n, std::uint32_t rank,
                       std::uint32_t dim_v);

  const Architecture& architecture_;
  const GraphPart part_;
  float embedding_scale_ = 1;
};

}  // namespace cria
