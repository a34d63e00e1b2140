// BERT and its kin: encoders, whose tokens attend both ways and whose norms follow the branches.
#include "engine/architectures/model_builder.h"

namespace cria {
namespace {

constexpr FeedForwardBlock kGelu{
    .activation = {ActivationKind::GeluErf}, .gated = false, .biases = true};

// x += a row of a table, chosen by position or segment.
void add_embedding(ModelBuilder& m, const std::string& name, std::uint64_t rows, EmbedOp::Row row,
                   TokenId separator = -1, const std::string& prefix = "") {
  const TensorView& table = m.weights.matrix(prefix + name + ".weight", m.config.n_embd, rows);
  const ValueId value = m.graph.value("embedding", m.config.n_embd);
  m.graph.add(EmbedOp{{}, 1, row, separator}, name, kNoValue, value, {Matrix{table, {}, {}, {}}});
  m.add_scaled(name + "_add", value, m.x, 1);
}

// Texts of one segment have type 0. A classifier reads pairs of texts, divided by a separator.
void add_token_types(ModelBuilder& m) {
  const auto shape = m.weights.shape_of("token_types.weight");
  if (!shape) return;
  const std::uint64_t types = shape->size() < 2 ? 1 : shape->back();
  TokenId separator = -1;
  if (types > 1 && m.weights.has("cls.output.weight"))
    for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.seperator_token_id"})
      if (const auto id = m.keys.whole_key(key); id && *id < m.config.n_vocab)
        separator = static_cast<TokenId>(*id);
  add_embedding(m, "token_types", types, EmbedOp::Row::Segment, separator);
}

void norm_in_place(ModelBuilder& m, const NormSpec& spec, const std::string& name) {
  m.graph.add(NormOp{{}, spec}, name, m.x, m.x);
}

// x = norm(x + attention(x)), x = norm(x + feed-forward(x))
void build_bert_like(ModelBuilder& m, bool positions, const FeedForwardBlock& feed_forward) {
  m.encoder();
  const std::uint32_t n_embd = m.config.n_embd;
  m.embed();
  add_token_types(m);
  if (positions) add_embedding(m, "position_embd", m.config.n_ctx_train, EmbedOp::Row::Position);
  NormSpec norm = m.norm_spec("", n_embd, false);
  norm.weight = m.weights.vector("token_embd_norm.weight", n_embd);
  norm.bias = m.weights.vector("token_embd_norm.bias", n_embd);
  norm_in_place(m, norm, "token_embd_norm");
  m.layers([&](std::uint32_t) {
    m.attention(m.x, {.rotated = !positions});
    norm_in_place(m, m.norm_spec("attn_output_norm", n_embd), "attn_output_norm");
    if (m.has_experts()) {
      m.experts(m.x, {.gated = false, .normalized = false, .activation = kGelu.activation});
      if (m.has("ffn_exps_bias"))
        add_embedding(m, "ffn_exps_bias", 1, EmbedOp::Row::Segment, -1, m.prefix());
    } else {
      m.feed_forward(m.x, feed_forward);
    }
    norm_in_place(m, m.norm_spec("layer_output_norm", n_embd), "layer_output_norm");
  });
  m.vectors(m.x);
}

}  // namespace

// Learned positions.
void build_bert(ModelBuilder& m) { build_bert_like(m, true, kGelu); }

// RoPE and a gated feed-forward.
void build_nomic_bert(ModelBuilder& m) { build_bert_like(m, false, {.biases = true}); }

// RoPE; every second layer has experts without gates, whose sum has a bias. Other converters leave
// the bias out.
void build_nomic_bert_moe(ModelBuilder& m) { build_bert_like(m, false, kGelu); }

}  // namespace cria
