// Gemma 3: Gemma 2 with norms over heads; windowed layers, five of six, rotate by a base of their
// own.
#include "engine/architectures/families.h"
#include "engine/architectures/gemma.h"

namespace cria {
namespace {

constexpr HfTensor kHeadNorms[] = {
    {"blk.#.attn_q_norm", "model.layers.#.self_attn.q_norm", HfRows::PlusOne},
    {"blk.#.attn_k_norm", "model.layers.#.self_attn.k_norm", HfRows::PlusOne}};

// Configurations within that of a model for pictures say only what differs from these.
HfClass gemma3_class() {
  HfClass out = gemma_class("Gemma3ForCausalLM", "gemma3_text");
  out.usual =
      R"({"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                  "max_position_embeddings": 131072, "query_pre_attn_scalar": 256, "rope_theta": 1000000.0,
                  "sliding_window": 4096})";
  out.ropes_by_type = true;
  return out;
}

void copy_rope_bases(HfKeys& k) {
  constexpr std::string_view kWindowed = "rope.freq_base_swa", kKey = "rope_local_base_freq";
  if (k.exporting()) return k.copy_number_or(kWindowed, kKey, 10000);
  if (!k.has("rope_theta") && k.rope_number_or("rope_theta", 0) == 0) k.set("rope.freq_base", 1e6F);
  k.set(kWindowed, static_cast<float>(k.windowed_rope_base_or(k.number_or(kKey, 10000))));
}

}  // namespace

void build_gemma3(ModelBuilder& m) {
  // The key is required; 0 says that no layer has a window.
  const std::uint32_t window = m.keys.get("attention.sliding_window", 0, limits::kContext);
  // Files of Ollama's converter have other names for the bases.
  RopeSpec whole = m.rope_spec();
  if (!m.keys.has("rope.freq_base"))
    whole.base = m.keys.positive_or("rope.global.freq_base", whole.base);
  const std::uint32_t rope =
                          m.window_rope(m.keys.positive_or("rope.local.freq_base", 10000), false),
                      full = m.graph.rope(whole);
  const std::vector<bool> windowed =
      window != 0 ? m.windowed(6) : std::vector<bool>(m.config.n_layers);
  const float scale = gemma_attention_scale(m, 62);
  m.embed(gemma_embedding_scale(m));
  m.layers([&](std::uint32_t i) {
    gemma_layer(m, {.rope = windowed[i] ? rope : full,
                    .window = windowed[i] ? window : 0,
                    .scale = scale,
                    .qk_norm = QkNorm::PerHead});
  });
  m.output(1, m.keys.number_or("final_logit_softcapping", 0));
}

void hf_gemma3(HfForms& forms) {
  forms.push_back({gemma3_class(),
                   join({kGemmaEnds, kGemmaBothSides, kHeadNorms, kHfAttention, kHfMlp}),
                   [](HfKeys& k) {
                     k.copy_windows_if_any(6, true);
                     expect_gemma_scale(k, 62);
                     copy_rope_bases(k);
                     if (!k.exporting()) k.only("attn_logit_softcapping", 0.0);
                     k.copy_cap("final_logit_softcapping", "final_logit_softcapping", 0);
                   }});
}

}  // namespace cria
