// The architectures: a declaration and a row for each.
#include <algorithm>
#include <iterator>

#include "engine/architectures/model_builder.h"
#include "engine/lora/adapters.h"

namespace cria {

using Build = void(ModelBuilder&);
// llama_like.cpp
Build build_llama, build_mistral3, build_plain, build_seed_oss, build_smollm3, build_arcee,
    build_qwen3, build_qwen3moe, build_qwen2moe, build_minicpm, build_granite, build_hunyuan;
// gemma.cpp
Build build_gemma, build_gemma2, build_gemma3, build_gemma3n, build_gemma4, build_gemma_embedding;
// encoders.cpp
Build build_bert, build_nomic_bert, build_nomic_bert_moe;
// deepseek_like.cpp
Build build_deepseek2, build_dots1, build_glm4moe, build_ernie4_5_moe, build_bailingmoe2;
// other_blocks.cpp
Build build_exaone4, build_olmo, build_olmo2, build_olmoe, build_phi3, build_phimoe,
    build_command_r, build_cohere2, build_starcoder2, build_stablelm, build_nemotron, build_apertus,
    build_glm4, build_gpt_oss, build_llama4, build_minimax_m2;

// hybrid.cpp
Build build_lfm2, build_qwen3next, build_qwen35, build_nemotron_h, build_falcon_h1, build_mamba2,
    build_mamba, build_jamba, build_kimi_linear;

namespace {

constexpr auto kAdjacent = RopeStyle::Adjacent, kHalfSplit = RopeStyle::HalfSplit;
constexpr auto kRms = NormKind::Rms, kLayer = NormKind::Layer;

constexpr Architecture kArchitectures[] = {
    {"llama", kAdjacent, kRms, build_llama},
    {"qwen2", kHalfSplit, kRms, build_plain},
    {"internlm2", kAdjacent, kRms, build_plain},
    {"exaone", kHalfSplit, kRms, build_plain},
    {"ernie4_5", kAdjacent, kRms, build_plain},
    {"mistral3", kAdjacent, kRms, build_mistral3},
    {"smollm3", kAdjacent, kRms, build_smollm3},
    {"arcee", kAdjacent, kRms, build_arcee},
    {"seed_oss", kHalfSplit, kRms, build_seed_oss},
    {"qwen3", kHalfSplit, kRms, build_qwen3},
    {"qwen3moe", kHalfSplit, kRms, build_qwen3moe},
    {"qwen2moe", kHalfSplit, kRms, build_qwen2moe},
    {"minicpm", kAdjacent, kRms, build_minicpm},
    {"granite", kAdjacent, kRms, build_granite},
    {"granitemoe", kAdjacent, kRms, build_granite},
    {"gemma", kHalfSplit, kRms, build_gemma},
    {"gemma2", kHalfSplit, kRms, build_gemma2},
    {"gemma3", kHalfSplit, kRms, build_gemma3},
    {"gemma3n", kHalfSplit, kRms, build_gemma3n},
    {"gemma4", kHalfSplit, kRms, build_gemma4},
    {"phi3", kHalfSplit, kRms, build_phi3},
    {"phimoe", kHalfSplit, kRms, build_phimoe},
    {"gpt-oss", kHalfSplit, kRms, build_gpt_oss},
    {"olmo", kAdjacent, kLayer, build_olmo},
    {"olmo2", kHalfSplit, kRms, build_olmo2},
    {"olmoe", kHalfSplit, kRms, build_olmoe},
    {"exaone4", kHalfSplit, kRms, build_exaone4},
    {"glm4", kAdjacent, kRms, build_glm4},
    {"glm4moe", kHalfSplit, kRms, build_glm4moe},
    {"dots1", kHalfSplit, kRms, build_dots1},
    {"deepseek2", kAdjacent, kRms, build_deepseek2},
    {"ernie4_5-moe", kAdjacent, kRms, build_ernie4_5_moe},
    {"hunyuan-moe", kHalfSplit, kRms, build_hunyuan},
    {"hunyuan-dense", kHalfSplit, kRms, build_hunyuan},
    {"command-r", kAdjacent, kLayer, build_command_r},
    {"cohere2", kAdjacent, kLayer, build_cohere2},
    {"starcoder2", kHalfSplit, kLayer, build_starcoder2},
    {"stablelm", kHalfSplit, kLayer, build_stablelm},
    {"nemotron", kHalfSplit, kLayer, build_nemotron},
    {"apertus", kHalfSplit, kRms, build_apertus},
    {"llama4", kAdjacent, kRms, build_llama4},
    {"bert", kHalfSplit, kLayer, build_bert},
    {"nomic-bert", kHalfSplit, kLayer, build_nomic_bert},
    {"nomic-bert-moe", kHalfSplit, kLayer, build_nomic_bert_moe},
    {"gemma-embedding", kHalfSplit, kRms, build_gemma_embedding},
    {"minimax-m2", kHalfSplit, kRms, build_minimax_m2},
    {"bailingmoe2", kHalfSplit, kRms, build_bailingmoe2},
    {"lfm2", kHalfSplit, kRms, build_lfm2, true},
    {"lfm2moe", kHalfSplit, kRms, build_lfm2, true},
    {"qwen3next", kHalfSplit, kRms, build_qwen3next},
    {"qwen35", kHalfSplit, kRms, build_qwen35},
    {"qwen35moe", kHalfSplit, kRms, build_qwen35},
    {"granitehybrid", kAdjacent, kRms, build_granite, true},
    {"nemotron_h", kAdjacent, kRms, build_nemotron_h, true},
    {"nemotron_h_moe", kAdjacent, kRms, build_nemotron_h, true},
    {"falcon-h1", kHalfSplit, kRms, build_falcon_h1},
    {"mamba2", kAdjacent, kRms, build_mamba2, true},
    {"mamba", kAdjacent, kRms, build_mamba, true},
    {"jamba", kAdjacent, kRms, build_jamba, true},
    {"kimi-linear", kAdjacent, kRms, build_kimi_linear, true},
};

std::string known_architectures() {
  std::string out;
  for (const Architecture& arch : kArchitectures)
    out += (out.empty() ? "" : ", ") + std::string(arch.name);
  return out;
}

// Sections change nothing if RoPE rotates halves: positions of text are equal on all axes.
void refuse_unread(const Architecture& architecture, const Keys& keys) {
  keys.refuse_unread();
  if (architecture.rope != RopeStyle::Adjacent) return;
  for (const char* suffix : {"rope.dimension_sections", "rope.mrope_section"})
    if (!keys.has_been_read(suffix) && keys.any(suffix))
      keys.fail(suffix, "not known of this architecture: expected no such key");
}

}  // namespace

std::span<const Architecture> architectures() noexcept { return kArchitectures; }

const Architecture* find_architecture(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                   [name](const Architecture& arch) { return arch.name == name; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

const Architecture& architecture_of(const GgufFile& file) {
  const std::string_view name = file.get_string("general.architecture");
  if (const Architecture* const arch = find_architecture(name)) return *arch;
  throw file.error("unknown architecture: expected one of " + known_architectures() + ", got '" +
                       std::string(name) + "'",
                   "key general.architecture");
}

ModelConfig read_config(const GgufFile& file) {
  const Architecture& architecture = architecture_of(file);
  return ModelConfig::from_gguf(file, architecture.norm, architecture.mixed);
}

std::deque<WantedTensors::Wanted> wanted_tensors(const GgufFile& metadata,
                                                 WantedTensors::Known known) {
  const ModelConfig config = read_config(metadata);
  Keys keys(metadata);
  keys.set_layers(config.n_layers);
  WantedTensors wanted(std::move(known));
  Weights weights(metadata, config.n_layers, &wanted);
  const Architecture& architecture = architecture_of(metadata);
  const std::string prediction = prediction_tensor(metadata, config);
  for (const GraphPart part : {GraphPart::Trunk, GraphPart::Prediction}) {
    if (part == GraphPart::Prediction && (prediction.empty() || !wanted.known(prediction))) break;
    GraphBuilder graph(*available_kernels().back());
    ModelBuilder model(architecture, config, keys, weights, graph, part);
    architecture.build(model);
  }
  refuse_unread(architecture, keys);
  return wanted.list();
}

std::string prediction_tensor(const GgufFile& file, const ModelConfig& config) {
  const std::uint64_t n = file.find_uint(config.arch + ".nextn_predict_layers").value_or(0);
  if (n == 0 || n >= config.n_layers) return {};
  return "blk." + std::to_string(config.n_layers - n) + ".nextn.eh_proj.weight";
}

Graph build_prediction(const GgufFile& file, const ModelConfig& config, const KernelSet& kernels) {
  const Architecture& architecture = architecture_of(file);
  Keys keys(file);
  keys.set_layers(config.n_layers);
  Weights weights(file, config.n_layers);
  GraphBuilder graph(kernels);
  ModelBuilder model(architecture, config, keys, weights, graph, GraphPart::Prediction);
  architecture.build(model);
  return graph.finish();
}

BuiltGraph build_graph(const GgufFile& file, const ModelConfig& config, const KernelSet& kernels,
                       const Adapters* adapters) {
  const Architecture& architecture = architecture_of(file);
  Keys keys(file);
  keys.set_layers(config.n_layers);
  Weights weights(file, config.n_layers);
  GraphBuilder graph(kernels);
  ModelBuilder model(architecture, config, keys, weights, graph);
  for (const char* prefix : {"v.", "mm.", "a."})
    weights.ignore(prefix, "vision and audio tensors are ignored");
  architecture.build(model);
  refuse_unread(architecture, keys);
  BuiltGraph built;
  built.warnings = weights.finish();
  built.unused_tensors = weights.unused();
  built.keys_read = keys.read();
  if (!keys.has_been_read("attention.sliding_window")) {
    const auto window = file.find_uint(config.arch + ".attention.sliding_window").value_or(0);
    if (window != 0 && window < config.n_ctx_train)
      built.warnings.push_back("sliding window of " + std::to_string(window) +
                               " is ignored: every position attends to all earlier ones");
  }
  if (adapters != nullptr) {
    graph.adapt(*adapters, file);
    built.warnings.insert(built.warnings.end(), adapters->warnings().begin(),
                          adapters->warnings().end());
  }
  built.graph = graph.finish();
  return built;
}

}  // namespace cria
