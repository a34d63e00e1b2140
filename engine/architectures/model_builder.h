// The blocks from which families are described: each adds the nodes of a step, taking its tensors by name.
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
  std::string_view post_norm = {};  ///< a norm over it first; "": none
  float scale = 1;
};

enum class QkNorm : std::uint8_t {
  None,
  PerHead,      ///< one weight vector for all heads
  OwnPerHead,   ///< weights [heads × head size]
  WholeVector,  ///< one norm over all heads together
};

struct Attention {
  bool rotated = true;
  std::uint32_t rope = kNoIndex;        ///< kNoIndex: the model's usual table
  std::optional<RopeStyle> style = {};  ///< nothing: the architecture's
  std::size_t window = 0, chunk = 0;
  float scale = 0;  ///< 0: 1/sqrt(head size)
  float softcap = 0, clamp = 0;
  QkNorm qk_norm = QkNorm::None;
  bool norm_after_rope = false, weightless_norm = false, v_norm = false, sinks = false;
  Temperature temperature = {};
  std::uint32_t dim_k = 0, dim_v = 0;     ///< 0: as the config says
  std::uint32_t shared_cache = kNoIndex;  ///< keys and values of another layer, instead of own ones
  Branch branch = {};
};

struct FeedForward {
  Activation activation = {};
  bool gated = true;
  bool fused = false;   ///< ffn_up holds gate and up
  bool biases = false;  ///< used where the file has them
  Branch branch = {};
};

struct Experts {
  Gating gating = Gating::Softmax;
  bool normalized = true;
  float scale = 1;
  bool selection_bias = false;  ///< exp_probs_b, where the file has it
  bool weight_at_input = false;
  bool biases = false;  ///< of router and experts; required
  bool shared = false;  ///< a shared expert is required; without it used if the tensors are there
  bool shared_gate = false;
  std::uint32_t groups = 1, groups_used = 1;
  Activation activation = {};
  Branch branch = {};
};

class ModelBuilder {
 public:
  ModelBuilder(const Architecture& architecture, const LlamaConfig& config, Keys& keys, Weights& weights,
               GraphBuilder& graph);

  const LlamaConfig& config;
  Keys& keys;
  Weights& weights;
  GraphBuilder& graph;
  const ValueId x;           ///< the residual stream
  std::uint32_t layer = 0;   ///< the current one
  bool rms_bias = false;     ///< RMS norms add a bias (phimoe)
  bool norm_weights = true;  ///< false: norms have none (olmo)

  void embed(float scale = 1);
  /// describe(layer) for the first n layers; all where n is 0.
  template <class F>
  void layers(F describe, std::uint32_t n = 0) {
    for (layer = 0; layer < (n == 0 ? config.n_layers : n); ++layer) {
      graph.set_prefix(prefix());
      describe(layer);
    }
    graph.set_prefix("");
  }
  void output(float scale = 1, float softcap = 0);
  /// How many layers are run: not those that predict further tokens, the last nextn_predict_layers.
  std::uint32_t layers_to_run();

  [[nodiscard]] std::string prefix() const { return "blk." + std::to_string(layer) + "."; }
  /// Whether the layer has NAME.weight.
  [[nodiscard]] bool has(const std::string& name) const { return weights.has(prefix() + name + ".weight"); }
  /// The layer's matrix NAME.weight; with NAME.bias if it is there and wanted, and the scale beside it.
  Matrix matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows, bool bias = false);
  /// n matrices of `rows` rows in one tensor, as one of n·rows; with the scale beside it.
  Matrix stacked_matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows, std::uint64_t n);
  /// The layer's vector, by its full name within the layer ("attn_sinks.weight").
  const TensorView& vector(const std::string& name, std::uint64_t length);
  [[nodiscard]] float number(const std::string& name);  ///< a vector of one value

  /// in, or x, normed by the layer's tensor NAME into a value of that name.
  ValueId norm(const std::string& name) { return norm(name, x, "norm"); }
  ValueId norm(const std::string& name, ValueId in, const std::string& value);
  /// out += norm(in) by NAME.
  void add_norm(const std::string& name, ValueId in, ValueId out);
  NormSpec norm_spec(const std::string& name, std::size_t width, bool weighted = true);
  /// out = W·in into a new value.
  ValueId product(const std::string& node, const Matrix& matrix, ValueId in, const std::string& value);
  void add_scaled(const std::string& node, ValueId in, ValueId out, float scale);
  /// x += W·in the way the branch says.
  void join(const std::string& node, const Matrix& matrix, ValueId in, const Branch& branch);
  void join(const std::string& node, ValueId in, const Branch& branch);

  /// The usual RoPE of the file: its keys, rope_freqs, longrope's factors.
  RopeSpec rope_spec();
  /// RoPE of windowed layers: rope.freq_base_swa or `base` (0: rope.freq_base), no scaling unless `scaled`.
  std::uint32_t window_rope(float base, bool scaled);
  /// Which layers have a window: the file's pattern (array or number), or all but the last of every `period`.
  std::vector<bool> windowed(std::uint32_t period);
  std::uint32_t window(std::uint32_t fallback = 0);  ///< attention.sliding_window; 0: the key is required
  /// The same, or 0 where there are none: it says 0, or it is missing.
  std::uint32_t window_if_any(std::uint32_t fallback = 0);

  /// attn_q, attn_k, attn_v (or attn_qkv), attention, attn_output. Returns the cache.
  std::uint32_t attention(ValueId in, const Attention& a);
  /// Latent attention of DeepSeek, always with compressed keys.
  void latent_attention(ValueId in, float scale, const RopeSpec& rope, const Temperature& temperature);
  /// ffn_gate, ffn_up, ffn_down.
  void feed_forward(ValueId in, const FeedForward& f);
  /// The same into a value of its own, not yet added to x. suffix: "_shexp" for the shared expert.
  ValueId feed_forward_value(ValueId in, const FeedForward& f, const std::string& suffix,
                             const std::string& value);
  /// A run of `size` values for every layer in one value, of the token and of x, its embedding.
  ValueId layer_inputs(std::uint32_t size);
  [[nodiscard]] bool has_experts() const { return has("ffn_gate_inp"); }
  /// Router, experts, shared expert.
  void experts(ValueId in, const Experts& e);
  /// Their sum in a value of its own. router_in: what the router reads.
  ValueId experts_value(ValueId in, ValueId router_in, const Experts& e);
  /// Gating, norm, scale and groups from the keys.
  Experts experts_by_keys(Gating usual);

 private:
  struct Projections {
    Matrix q;
    std::optional<Matrix> k, v;
  };
  Projections projections(const Attention& a, std::uint64_t q, std::uint64_t k, std::uint64_t v);
  /// Norms of single heads; not that of a whole vector, which is a node of its own.
  void add_head_norms(HeadsSpec& h, const Attention& a);
  /// What the attention node computes, with the layer's sinks where there are any.
  AttentionSpec attention_spec(const Attention& a, const HeadsSpec& h);
  /// Routers: the scale beside one of gemma4's is another.
  Matrix unscaled_matrix(const std::string& name, std::uint64_t cols, std::uint64_t rows, bool bias);
  std::vector<Matrix> expert_matrices(const std::string& name, std::uint64_t cols, std::uint64_t rows,
                                      bool bias);
  std::uint64_t expert_width();
  void expect_usual_router(const Experts& e) const;
  bool latent_halves(const char* alone);
  void absorbed_keys(ValueId q, ValueId out, std::uint32_t n, std::uint32_t rank, std::uint32_t rot,
                     std::uint32_t dim_v);
  void expanded_values(ValueId in, ValueId out, std::uint32_t n, std::uint32_t rank, std::uint32_t dim_v);

  const Architecture& architecture_;
};

}  // namespace cria
