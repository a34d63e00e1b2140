#include "engine/convert/convert.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/architectures/architecture.h"
#include "engine/convert/hf_rules.h"
#include "engine/convert/hf_tensors.h"
#include "engine/quantize/plan.h"
#include "model/file/json.h"
#include "model/gguf/writer.h"
#include "model/plural.h"
#include "tokenizer/hf/vocabulary.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

/// The last part of the path; the model's name in a download cache
/// (models--OWNER--NAME/snapshots/HASH).
std::string directory_name(const std::string& directory) {
  fs::path path = fs::absolute(directory).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const fs::path snapshots = path.parent_path(), model = snapshots.parent_path().filename();
  if (snapshots.filename() == "snapshots" && model.string().starts_with("models--")) {
    const std::string name = model.string();
    return name.substr(name.rfind("--") + 2);
  }
  return path.filename().string();
}

/// A tensor to write and its values.
struct Planned {
  ConvertedTensor tensor;
  WeightRowsPtr rows;
};

}  // namespace

struct Conversion::State {
  ConvertOptions options;
  bool wrapped = false;  // the text model of a multimodal model
  SortedJson json;
  HfConfig config;
  SafetensorsDirectory weights;
  HfSources sources;
  std::optional<HfVocabulary> vocabulary;
  std::optional<GgufWriter> writer;
  std::map<std::string, std::vector<float>> computed;  // tensors computed from config.json
  std::map<std::string, SafetensorsDirectory, std::less<>> projections;  // by GGUF name
  std::vector<Planned> planned;
  std::vector<ConvertedTensor> tensors;
  std::vector<std::string> warnings;

  explicit State(ConvertOptions wanted)
      : options(std::move(wanted)),
        config(read_config()),
        weights(SafetensorsDirectory::open(options.directory)),
        sources(config, weights) {
    require_other_files();
    set_keys();
    plan();
    vocabulary.emplace(read_hf_vocabulary(options.directory,
                                          {.tokens = config.n_vocab,
                                           .pre = options.pre,
                                           .bos = config.bos,
                                           .eos = config.eos,
                                           .listed_merges = config.model_class->listed_merges}));
    for (const auto& list : {config.warnings, vocabulary->vocabulary().warnings})
      warnings.insert(warnings.end(), list.begin(), list.end());
    declare();
  }

  [[nodiscard]] std::string config_path() const {
    return (fs::path(options.directory) / "config.json").string();
  }

  /// The output may lie in the directory, but must not replace a file of the model.
  void require_other_files() const {
    std::error_code unreadable;  // a directory that cannot be listed may still be read
    for (const fs::directory_entry& entry : fs::directory_iterator(options.directory, unreadable)) {
      const fs::path end = entry.path().extension();
      if (end == ".safetensors" || end == ".json" || end == ".model" || end == ".jinja")
        require_other_file(entry.path().string(), options.output);
    }
  }

  [[nodiscard]] HfConfig read_config() {
    if (!fs::exists(config_path()))
      throw Error(options.directory,
                  "no config.json: expected the directory of a Hugging Face or MLX model");
    json = with_usual_names(text_part(read_python_json(config_path())));
    return HfConfig::from_json(json, config_path(), hf_classes());
  }

  /// The text model's config of a multimodal model.
  SortedJson text_part(SortedJson whole) {
    const std::string name = first_of(whole, "architectures");
    if (std::ranges::find(hf_wrappers(), name) == hf_wrappers().end()) return whole;
    if (!whole.contains("text_config") || !whole["text_config"].is_object())
      throw Error(config_path(), "missing, or not an object", "key text_config");
    SortedJson text = whole["text_config"];
    const std::string type = text.value("model_type", SortedJson()).is_string()
                                 ? text["model_type"].get<std::string>()
                                 : "";
    const HfClass* const inner = find_hf_class_of_type(type);
    if (inner == nullptr)
      throw Error(config_path(), "unknown text model of " + name + ": got '" + type + "'",
                  "key text_config.model_type");
    for (const auto& [key, value] : whole.items())
      if (!key.ends_with("_config") || key == "quantization_config") text.emplace(key, value);
    text["architectures"] = {inner->name};
    if (!inner->defaults.empty()) {
      const SortedJson defaults = SortedJson::parse(inner->defaults);
      text.insert(defaults.begin(), defaults.end());
    }
    wrapped = true;
    return text;
  }

  /// The config with the usual names of keys that the class names otherwise.
  static SortedJson with_usual_names(SortedJson config) {
    const HfClass* const named = find_hf_class(first_of(config, "architectures"));
    if (named == nullptr) return config;
    for (const auto& [other, usual] : named->aliases)
      if (const auto found = config.find(other);
          found != config.end() && !config.contains(std::string(usual)))
        config[std::string(usual)] = SortedJson(*found);
    return config;
  }

  static std::string first_of(const SortedJson& object, const char* key) {
    if (!object.is_object() || !object.contains(key)) return "";
    const SortedJson& list = object[key];
    return list.is_array() && !list.empty() && list.front().is_string()
               ? list.front().get<std::string>()
               : "";
  }

  void set_keys() {
    writer.emplace(options.output);
    config.write(*writer, find_architecture(config.model_class->arch)->norm);
    HfImport keys(json, config_path(), config, *writer);
    for (const HfRule& rule : config.model_class->rules)
      if (rule.to_gguf) rule.to_gguf(keys);
    for (const HfNumber& number : config.model_class->numbers)
      writer->set(std::string(number.gguf), GgufArray::of(sources.numbers_of(number)));
    set_pooling(*writer, options.directory, config.model_class->arch);
    for (const HfProjection& one :
         projections_of(options.directory, config.model_class->projections))
      projections.emplace(one.gguf, SafetensorsDirectory::open(one.directory));
    if (auto factors = config.rope_factors(); !factors.empty())
      computed.emplace("rope_freqs.weight", std::move(factors));
    if (config.rope_scaling.kind != HfRopeScaling::Kind::LongRope) return;
    computed.emplace("rope_factors_short.weight", config.rope_scaling.short_factors);
    computed.emplace("rope_factors_long.weight", config.rope_scaling.long_factors);
  }

  /// Plans every tensor that the architecture asks for, and rejects the others.
  void plan() {
    const std::string bytes = writer->metadata();
    const GgufFile metadata = GgufFile::from_bytes(std::as_bytes(std::span(bytes)), config_path(),
                                                   {.metadata_only = true});
    require_sizes(metadata);
    const bool head = sources.shape_of("output.weight").has_value();
    // Encoders have no such tensor, whatever their configuration says of tied embeddings.
    const bool may_have_head = std::ranges::any_of(
        config.model_class->tensors, [](const HfTensor& t) { return t.gguf == "output.weight"; });
    if (may_have_head && !head && !config.tied_embeddings) throw missing("output.weight");
    if (config.attention_bias && sources.shape_of("blk.0.attn_q.weight") &&
        !sources.shape_of("blk.0.attn_q.bias"))
      throw missing("blk.0.attn_q.bias");
    if (config.mlp_bias && !sources.shape_of("blk.0.ffn_up.bias"))
      throw missing("blk.0.ffn_up.bias");
    const auto known = [&](std::string_view name) -> std::optional<std::vector<std::uint64_t>> {
      if (name == "output.weight" && config.tied_embeddings) return std::nullopt;
      const auto found = computed.find(std::string(name));
      if (found != computed.end()) return std::vector<std::uint64_t>{found->second.size()};
      const SafeTensor* const matrix = projection(name);
      if (matrix == nullptr) return sources.shape_of(name);
      return std::vector<std::uint64_t>{matrix->shape.rbegin(), matrix->shape.rend()};
    };
    for (const WantedTensors::Wanted& wanted : wanted_tensors(metadata, known)) {
      if (!computed.contains(wanted.name)) add(wanted);
    }
    drop_unused();
  }

  /// Returns the matrix of a projection of vectors, or null.
  [[nodiscard]] const SafeTensor* projection(std::string_view gguf) const {
    const auto found = projections.find(gguf);
    if (found == projections.end()) return nullptr;
    const SafeTensor* const matrix = found->second.tensor("linear.weight");
    if (matrix == nullptr || matrix->shape.size() != 2 || found->second.tensors().size() != 1)
      throw found->second.error("expected one matrix", "tensor linear.weight");
    return matrix;
  }

  /// Numbers of config.json size lists: the tensors must confirm them.
  void require_sizes(const GgufFile& metadata) const {
    if (config.n_layers > weights.tensors().size())
      throw Error(config_path(),
                  "more layers than tensors: expected at most " +
                      std::to_string(weights.tensors().size()) + ", got " +
                      std::to_string(config.n_layers),
                  "key num_hidden_layers");
    const std::string arch = std::string(config.model_class->arch) + ".";
    const auto experts = metadata.find_uint(arch + "expert_count").value_or(0);
    const auto width = metadata.find_uint(arch + "expert_feed_forward_length").value_or(0);
    for (std::uint32_t i = 0; experts != 0 && i < config.n_layers; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      if (!sources.shape_of(layer + "ffn_gate_inp.weight")) continue;
      const auto shape = sources.shape_of(layer + "ffn_down_exps.weight");
      if (!shape) throw missing(layer + "ffn_down_exps.weight");
      if (shape->size() == 3 && shape->back() == experts && shape->front() == width) continue;
      throw weights.error("wrong number or width of experts: expected " + std::to_string(experts) +
                              " of " + std::to_string(width),
                          "tensor " + sources.name_of(layer + "ffn_down_exps.weight"));
    }
  }

  [[nodiscard]] Error missing(std::string_view gguf) const {
    return weights.error("missing tensor", "tensor " + sources.name_of(gguf));
  }

  void drop_unused() {
    if (config.tied_embeddings && sources.left().contains("lm_head.weight")) {
      warnings.emplace_back("lm_head.weight is ignored: config.json ties it to the embedding");
      for (const char* part : {"lm_head.weight", "lm_head.scales", "lm_head.biases"})
        sources.drop(part);
    }
    const HfClass& own = *config.model_class;
    const std::set<std::string_view> left = sources.left();
    bool predicting = false, other_modalities = false;
    std::size_t unused = 0;
    std::vector<std::string_view> odd;
    for (const std::string_view name : left) {
      if (name.ends_with("rotary_emb.inv_freq")) continue;  // a table of computed values
      if ((own.predicting_layers && is_behind_the_last_layer(name)) ||
          (!own.predicting.empty() && name.starts_with(own.predicting)))
        predicting = true;
      else if (wrapped && is_of_another_modality(name))
        other_modalities = true;
      else if (std::ranges::any_of(own.unused,
                                   [&](std::string_view end) { return name.ends_with(end); }))
        ++unused;
      else
        odd.push_back(name);
    }
    if (predicting) warnings.emplace_back("MTP layers (multi-token prediction) are ignored");
    if (other_modalities) warnings.emplace_back("vision and audio tensors are ignored");
    if (unused != 0)
      warnings.push_back(counted(unused, "tensor") +
                         (config.model_class->by_layer
                              ? " ignored in layers that share keys and values"
                              : " ignored, which vectors do not depend on"));
    if (!odd.empty())
      throw weights.error(
          "a GGUF file of this class of models has no such tensor" +
              (odd.size() == 1 ? "" : ", nor " + counted(odd.size() - 1, "other tensor")),
          "tensor " + std::string(odd.front()));
  }

  static bool is_of_another_modality(std::string_view name) {
    if (name.starts_with("model.")) name.remove_prefix(6);
    return std::ranges::any_of(
        std::initializer_list<std::string_view>{"vision", "audio", "embed_vision", "embed_audio",
                                                "multi_modal_projector", "image_newline"},
        [&](std::string_view part) { return name.starts_with(part); });
  }

  [[nodiscard]] bool is_behind_the_last_layer(std::string_view name) const {
    constexpr std::string_view kLayers = "model.layers.";
    if (!name.starts_with(kLayers)) return false;
    std::uint32_t layer = 0;
    const auto [end, error] =
        std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
    return error == std::errc() && layer >= config.n_layers;
  }

  void add(const WantedTensors::Wanted& wanted) {
    Planned item;
    item.tensor.name = wanted.name;
    item.tensor.shape = wanted.shape;
    try {
      if (const SafeTensor* const matrix = projection(wanted.name))
        item.rows = float_rows(*matrix, wanted.shape[1], wanted.shape[0]);
      else
        item.rows = sources.rows_of(wanted);
    } catch (const Error& error) {
      const std::string text = error.what();
      throw text.starts_with(options.directory) ? error : Error(options.directory, text);
    }
    item.tensor.type =
        wanted.matrix && is_quantizable(wanted.name) ? matrix_type(*item.rows) : DType::F32;
    item.tensor.form = item.rows->form();
    item.tensor.bytes =
        item.rows->rows() * dtype_info(item.tensor.type).row_bytes(item.rows->cols());
    planned.push_back(std::move(item));
  }

  /// The wanted type, or F16 if its blocks do not divide the rows.
  [[nodiscard]] DType matrix_type(const WeightRows& rows) const {
    const DType type = options.type.value_or(rows.nearest());
    return rows.cols() % dtype_info(type).block_values == 0 ? type : DType::F16;
  }

  void declare() {
    writer->set("general.name",
                options.name.empty() ? directory_name(options.directory) : options.name);
    std::map<DType, std::uint64_t> of_type;
    for (const Planned& item : planned) {
      if (item.tensor.shape.size() > 1)
        of_type[item.tensor.type] += item.rows->rows() * item.rows->cols();
    }
    set_file_type(*writer, of_type);
    set_vocabulary(*writer, *vocabulary);
    set_sampling(*writer, options.directory, warnings);
    for (const auto& [name, values] : computed) writer->declare(name, DType::F32, {values.size()});
    for (const Planned& item : planned) {
      writer->declare(item.tensor.name, item.tensor.type, item.tensor.shape);
      tensors.push_back(item.tensor);
    }
  }

  void write(const std::function<bool(std::uint64_t)>& on_bytes,
             const std::function<void(const ConvertedTensor&)>& on_tensor) {
    writer->begin();
    for (const auto& [name, values] : computed) writer->write(std::as_bytes(std::span(values)));
    RowStream stream(*options.kernels, options.threads);
    ByteCount written(on_bytes);
    for (Planned& item : planned) {
      RowJob job{.file = options.directory,
                 .name = item.tensor.name,
                 .rows = item.rows.get(),
                 .type = item.tensor.type,
                 .measure = item.rows->packed()};
      const FormError error = stream.write(job, [&](std::span<const std::byte> bytes) {
        writer->write(bytes);
        written.add(bytes.size());
      });
      if (job.measure) item.tensor.error = error;
      on_tensor(item.tensor);
    }
    writer->finish();
  }
};

Conversion::Conversion(ConvertOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
Conversion::~Conversion() = default;

const std::vector<ConvertedTensor>& Conversion::tensors() const { return state_->tensors; }
const std::vector<std::string>& Conversion::warnings() const { return state_->warnings; }
std::uint64_t Conversion::file_bytes() const { return state_->writer->file_bytes(); }

bool Conversion::write(const std::function<bool(std::uint64_t)>& on_bytes,
                       const std::function<void(const ConvertedTensor&)>& on_tensor) {
  try {
    state_->write(on_bytes, on_tensor);
  } catch (const Stopped&) {
    return false;
  }
  return true;
}

}  // namespace cria
