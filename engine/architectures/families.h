// One function per architecture, and one for its form at Hugging Face where that is known, grouped
// by the file that describes the family.
#pragma once

#include "engine/architectures/hf_form.h"

namespace cria {

class ModelBuilder;

// llama.cpp
void build_llama(ModelBuilder& m);
void build_mistral3(ModelBuilder& m);
void hf_llama(HfForms& forms);
void hf_mistral3(HfForms& forms);
// plain.cpp
void build_plain(ModelBuilder& m);
void build_seed_oss(ModelBuilder& m);
void hf_qwen2(HfForms& forms);
void hf_internlm2(HfForms& forms);
void hf_seed_oss(HfForms& forms);
// smollm3.cpp
void build_smollm3(ModelBuilder& m);
void build_arcee(ModelBuilder& m);
void hf_smollm3(HfForms& forms);
void hf_arcee(HfForms& forms);
// qwen.cpp
void build_qwen3(ModelBuilder& m);
void build_qwen3moe(ModelBuilder& m);
void build_qwen2moe(ModelBuilder& m);
void hf_qwen3(HfForms& forms);
void hf_qwen3moe(HfForms& forms);
void hf_qwen2moe(HfForms& forms);
// granite.cpp, minicpm.cpp
struct Scales {
  float embedding = 1;  ///< of the tokens' embeddings
  float residual = 1;   ///< of what each branch adds
  float attention = 0;  ///< of the scores; 0: 1/sqrt(head size)
  float logits = 1;     ///< the logits are divided by it
  bool rotated = true;  ///< false: without RoPE
};
/// Llama with factors; those of the file count before the usual ones, but for attention's.
void build_scaled(ModelBuilder& m, const Scales& usual);
void build_minicpm(ModelBuilder& m);
void build_granite(ModelBuilder& m);
void hf_minicpm(HfForms& forms);
void hf_granite(HfForms& forms);
void hf_granitemoe(HfForms& forms);
// gemma.cpp, gemma2.cpp, gemma3.cpp, gemma4.cpp, gemma4_hf.cpp
void build_gemma(ModelBuilder& m);
void build_gemma2(ModelBuilder& m);
void build_gemma3(ModelBuilder& m);
void build_gemma4(ModelBuilder& m);
void hf_gemma(HfForms& forms);
void hf_gemma2(HfForms& forms);
void hf_gemma3(HfForms& forms);
void hf_gemma4(HfForms& forms);
// phi.cpp
void build_phi3(ModelBuilder& m);
void build_phimoe(ModelBuilder& m);
void hf_phi3(HfForms& forms);
void hf_phimoe(HfForms& forms);
// gpt_oss.cpp
void build_gpt_oss(ModelBuilder& m);
void hf_gpt_oss(HfForms& forms);
// olmo.cpp
void build_olmo(ModelBuilder& m);
void build_olmo2(ModelBuilder& m);
void build_olmoe(ModelBuilder& m);
void hf_olmo(HfForms& forms);
void hf_olmo2(HfForms& forms);
void hf_olmoe(HfForms& forms);
// exaone.cpp
void build_exaone4(ModelBuilder& m);
void hf_exaone(HfForms& forms);
void hf_exaone4(HfForms& forms);
// glm.cpp
void build_glm4(ModelBuilder& m);
void build_glm4moe(ModelBuilder& m);
void hf_glm4(HfForms& forms);
void hf_glm4moe(HfForms& forms);
// deepseek.cpp, dots.cpp
void build_dots1(ModelBuilder& m);
void build_deepseek2(ModelBuilder& m);
void hf_dots1(HfForms& forms);
void hf_deepseek2(HfForms& forms);
// ernie.cpp
void build_ernie4_5_moe(ModelBuilder& m);
void hf_ernie4_5(HfForms& forms);
void hf_ernie4_5_moe(HfForms& forms);
// hunyuan.cpp
void build_hunyuan(ModelBuilder& m);
void hf_hunyuan_moe(HfForms& forms);
void hf_hunyuan_dense(HfForms& forms);
// cohere.cpp
void build_command_r(ModelBuilder& m);
void build_cohere2(ModelBuilder& m);
void hf_command_r(HfForms& forms);
void hf_cohere2(HfForms& forms);
// starcoder2.cpp, stablelm.cpp, nemotron.cpp, apertus.cpp, llama4.cpp
void build_starcoder2(ModelBuilder& m);
void build_stablelm(ModelBuilder& m);
void build_nemotron(ModelBuilder& m);
void build_apertus(ModelBuilder& m);
void build_llama4(ModelBuilder& m);
void hf_starcoder2(HfForms& forms);
void hf_stablelm(HfForms& forms);
void hf_nemotron(HfForms& forms);
void hf_apertus(HfForms& forms);
void hf_llama4(HfForms& forms);

}  // namespace cria
