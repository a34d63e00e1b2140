// One function per architecture, grouped by the file that describes the family.
#pragma once

namespace cria {

class ModelBuilder;

// llama.cpp
void build_llama(ModelBuilder& m);
void build_plain(ModelBuilder& m);
void build_mistral3(ModelBuilder& m);
void build_smollm3(ModelBuilder& m);
void build_arcee(ModelBuilder& m);
void build_seed_oss(ModelBuilder& m);
// qwen.cpp
void build_qwen3(ModelBuilder& m);
void build_qwen3moe(ModelBuilder& m);
void build_qwen2moe(ModelBuilder& m);
// granite.cpp
void build_minicpm(ModelBuilder& m);
void build_granite(ModelBuilder& m);
// gemma.cpp, gemma4.cpp
void build_gemma(ModelBuilder& m);
void build_gemma2(ModelBuilder& m);
void build_gemma3(ModelBuilder& m);
void build_gemma4(ModelBuilder& m);
// phi.cpp
void build_phi3(ModelBuilder& m);
void build_phimoe(ModelBuilder& m);
// gpt_oss.cpp
void build_gpt_oss(ModelBuilder& m);
// olmo.cpp
void build_olmo(ModelBuilder& m);
void build_olmo2(ModelBuilder& m);
void build_olmoe(ModelBuilder& m);
// exaone.cpp
void build_exaone4(ModelBuilder& m);
// glm.cpp
void build_glm4(ModelBuilder& m);
void build_glm4moe(ModelBuilder& m);
// deepseek.cpp
void build_dots1(ModelBuilder& m);
void build_deepseek2(ModelBuilder& m);
// ernie.cpp
void build_ernie4_5_moe(ModelBuilder& m);
// hunyuan.cpp
void build_hunyuan(ModelBuilder& m);
// cohere.cpp
void build_command_r(ModelBuilder& m);
void build_cohere2(ModelBuilder& m);
// starcoder2.cpp, stablelm.cpp, nemotron.cpp, apertus.cpp, llama4.cpp
void build_starcoder2(ModelBuilder& m);
void build_stablelm(ModelBuilder& m);
void build_nemotron(ModelBuilder& m);
void build_apertus(ModelBuilder& m);
void build_llama4(ModelBuilder& m);

}  // namespace cria
