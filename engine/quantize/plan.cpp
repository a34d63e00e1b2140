#include "engine/quantize/plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>

#include "model/file/utf8.h"
#include "model/limits.h"

namespace cria {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::uint32_t kQuantizationVersion = 2;  // version of the block formats since 2023-05

// Properties of a model that rules need, from its tensors: metadata may be missing.
struct ModelFacts {
  std::uint32_t n_layers = 0;
  std::uint64_t group = 1;    // query heads per KV head
  std::uint64_t experts = 0;  // 0: dense
  bool tied = true;           // the embedding is the output matrix
  bool weighted = false;

  ModelFacts(const GgufFile& file, bool with_importance) : weighted(with_importance) {
    std::map<std::uint32_t, std::uint64_t> experts_by_layer;
    for (const TensorView& tensor : file.tensors()) {
      const TensorRole role = tensor_role(tensor.name);
      if (role.layer) n_layers = std::max(n_layers, *role.layer + 1);
      if (role.role == "output") tied = false;
      if (role.role.ends_with("_exps") && tensor.shape.size() == 3) experts = tensor.shape[2];
      if (role.role.starts_with("ffn_down."))
        ++experts_by_layer[role.layer.value_or(0)];  // one tensor each
      if (role.role == "attn_k" && tensor.name.ends_with(kWeight)) note_group(file, tensor);
    }
    for (const auto& [layer, n] : experts_by_layer) experts = std::max(experts, n);
  }

 private:
  void note_group(const GgufFile& file, const TensorView& keys) {
    std::string queries(keys.name);
    queries[queries.size() - kWeight.size() - 1] = 'q';
    if (const TensorView* q = file.tensor(queries); q != nullptr && keys.rows() != 0)
      group = std::max<std::uint64_t>(group, q->rows() / keys.rows());
  }
};

bool holds(Layers layers, std::uint32_t layer, std::uint32_t n) {
  switch (layers) {
    case Layers::All:
      return true;
    case Layers::First2:
      return layer < 2;
    case Layers::First4:
      return layer < 4;
    case Layers::FirstSixteenth:
      return layer < n / 16;
    case Layers::FirstEighth:
      return layer < n / 8;
    case Layers::Middle:
      return layer >= n / 8 && layer < 7 * n / 8;
    case Layers::Spread:
      return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
  }
  return false;
}

bool holds(Models models, const ModelFacts& facts) {
  switch (models) {
    case Models::All:
      return true;
    case Models::Grouped:
      return facts.group >= 4;
    case Models::GroupedOrExperts:
      return facts.group >= 4 || facts.experts >= 4;
    case Models::Large:
      return facts.n_layers == 80 && facts.group > 1;
    case Models::Experts:
      return facts.experts != 0;
    case Models::EightExperts:
      return facts.experts == 8;
    case Models::Weighted:
      return facts.weighted;
    case Models::Unweighted:
      return !facts.weighted;
  }
  return false;
}

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

bool fits(const MixRule& rule, const Mix& mix, const TensorRole& role, const ModelFacts& facts) {
  if (rule.mixes != "*" && !lists(rule.mixes, mix.name)) return false;
  const bool name_fits =
      rule.tensors.ends_with('*')
          ? role.role.starts_with(rule.tensors.substr(0, rule.tensors.size() - 1))
          : role.role == rule.tensors;
  if (!name_fits || !holds(rule.models, facts)) return false;
  return rule.layers == Layers::All ||
         (role.layer && holds(rule.layers, *role.layer, facts.n_layers));
}

bool is_float(DType type) { return dtype_info(type).is_float(); }

bool is_product(const TensorView& tensor) {
  return tensor.shape.size() >= 2 &&
         dtype_info(dtype_info(tensor.dtype).plain).dot != DotClass::None &&
         is_quantizable(tensor.name);
}

bool divides(const TensorView& tensor, DType type) {
  return tensor.cols() % dtype_info(type).block_values == 0;
}

std::string does_not_divide(const TensorView& tensor, DType type) {
  return "rows of " + std::to_string(tensor.cols()) + " do not divide into " +
         std::to_string(dtype_info(type).block_values) + ": not " + std::string(name(type));
}

std::string damage_text(double damage) {
  char text[32];
  std::snprintf(text, sizeof text, "divergence %.3g", damage);
  return text;
}

class Planner {
 public:
  Planner(const GgufFile& file, const QuantizeOptions& options)
      : file_(file),
        options_(options),
        facts_(file, options.weighted),
        used_(options.tensor_types.size()) {
    for (const auto& [regex, type] : options.tensor_types) searches_.emplace_back(regex);
  }

  QuantizePlan plan() {
    QuantizePlan plan{options_.mix, {}};
    for (const TensorView& tensor : file_.tensors()) plan.tensors.push_back(plan_tensor(tensor));
    for (std::size_t i = 0; i < used_.size(); ++i) {
      if (!used_[i])
        throw file_.error("expression number " + std::to_string(i + 1) +
                          " for tensor types is found in the name of no matrix");
    }
    return plan;
  }

 private:
  PlannedTensor plan_tensor(const TensorView& tensor) {
    const TensorRole role = tensor_role(tensor.name);
    if (!is_product(tensor)) return {&tensor, kept_type(tensor), ""};
    PlannedTensor planned = choose(tensor, role);
    fall_back(planned);
    require_lossless(planned);
    return planned;
  }

  // Vectors of two bytes become F32, as the kernels need it.
  static DType kept_type(const TensorView& tensor) {
    return is_float(tensor.dtype) && tensor.shape.size() == 1 ? DType::F32
                                                              : dtype_info(tensor.dtype).plain;
  }

  PlannedTensor choose(const TensorView& tensor, TensorRole role) {
    const bool output = role.role == "output" || (role.role == "token_embd" && facts_.tied);
    if (const auto type = asked_for(tensor, role, output)) return {&tensor, *type, "as asked for"};
    PlannedTensor planned{&tensor, options_.mix->type, "", true};
    if (const auto found = options_.chosen.find(tensor.name); found != options_.chosen.end()) {
      planned.type = found->second.type;
      if (const double damage = found->second.damage; damage > 0)
        planned.note = damage_text(damage);
    } else if (output) {
      role.role = "output";
      by_rules(planned, role);
      if (!options_.pure && !is_float(options_.mix->type) && !divides(tensor, options_.mix->type)) {
        planned.type = DType::Q8_0;
        planned.note = does_not_divide(tensor, options_.mix->type);
      }
    } else {
      by_rules(planned, role);
    }
    return planned;
  }

  std::optional<DType> asked_for(const TensorView& tensor, const TensorRole& role, bool output) {
    for (std::size_t i = 0; i < searches_.size(); ++i) {
      if (!is_utf8(tensor.name) || !searches_[i].next(tensor.name, 0)) continue;
      used_[i] = true;
      return options_.tensor_types[i].second;
    }
    if (output && options_.output_type) return options_.output_type;
    if (role.role == "token_embd") return options_.token_embedding_type;
    return std::nullopt;
  }

  void by_rules(PlannedTensor& planned, const TensorRole& role) const {
    const Mix& mix = *options_.mix;
    if (options_.pure || is_float(mix.type)) return;
    for (const MixRule& rule : mix_rules()) {
      if (!fits(rule, mix, role, facts_)) continue;
      planned.type = rule.type;
      planned.note = rule.type == mix.type ? "" : "rule";
      return;
    }
  }

  static void fall_back(PlannedTensor& planned) {
    const DType wanted = planned.type;
    planned.type = dividing_type(*planned.source, wanted);
    if (planned.type != wanted) planned.note = does_not_divide(*planned.source, wanted);
  }

  void require_lossless(const PlannedTensor& planned) const {
    const DType from = dtype_info(planned.source->dtype).plain;
    if (options_.allow_requantize || planned.copied() || is_float(from) || is_float(planned.type))
      return;
    throw file_.error(
        "the tensor is already quantized, and would lose more if quantized again: expected "
        "F32, F16 "
        "or "
        "BF16, got " +
            std::string(name(from)) + " (--allow-requantize forces it)",
        "tensor " + std::string(planned.source->name));
  }

  const GgufFile& file_;
  const QuantizeOptions& options_;
  const ModelFacts facts_;
  std::vector<Regex::Search> searches_;
  std::vector<bool> used_;
};

}  // namespace

DType dividing_type(const TensorView& tensor, DType wanted) noexcept {
  if (divides(tensor, wanted)) return wanted;
  for (const Fallback& fallback : fallbacks())
    if (fallback.from == wanted && divides(tensor, fallback.to)) return fallback.to;
  return DType::F16;
}

TensorRole tensor_role(std::string_view name) noexcept {
  TensorRole role{name, std::nullopt};
  if (name.ends_with(kWeight)) role.role.remove_suffix(kWeight.size());
  constexpr std::string_view kBlock = "blk.";
  if (!name.starts_with(kBlock)) return role;
  std::uint32_t layer = 0;
  const char* const begin = name.data() + kBlock.size();
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(begin, last, layer);
  if (error != std::errc() || end == last || *end != '.' || layer >= limits::kLayers) return role;
  role.layer = layer;
  role.role.remove_prefix(static_cast<std::size_t>(end + 1 - name.data()));
  return role;
}

bool is_quantizable(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 10> kKept{"ffn_gate_inp",         "ffn_gate_inp_shexp",
                                                   "per_layer_model_proj", "position_embd",
                                                   "token_types",          "cls",
                                                   "cls.output",           "ssm_dt",
                                                   "ffn_exps_bias",        "shortconv.conv"};
  const std::string_view role = tensor_role(name).role;
  return name.ends_with(kWeight) && !role.ends_with("norm") && !role.starts_with("ssm_conv1d") &&
         !role.starts_with("altup_") && !role.starts_with("laurel_") &&
         std::ranges::find(kKept, role) == kKept.end();
}

std::string_view advice_without_importance(const Mix& mix) noexcept {
  switch (mix.type) {
    case DType::IQ1_S:
    case DType::IQ1_M:
    case DType::IQ2_XXS:
    case DType::IQ2_XS:
    case DType::IQ2_S:
      return "at this size quality suffers badly without an importance matrix (--imatrix, made "
             "by `cria imatrix`)";
    default:
      return "";
  }
}

QuantizePlan plan_quantize(const GgufFile& file, const QuantizeOptions& options) {
  return Planner(file, options).plan();
}

std::uint64_t matrices_of(const TensorView& tensor) noexcept {
  return tensor.shape.size() > 2 ? tensor.rows() / tensor.shape[1] : 1;
}

void require_importance_of(const GgufFile& file, const ImportanceMatrix& importance,
                           const std::string& path) {
  const auto known = [&](const TensorView& tensor) {
    return importance.entries.contains(tensor.name);
  };
  if (std::ranges::none_of(file.tensors(), known))
    throw Error(
        path,
        "this importance matrix belongs to a different model: none of its entries is a tensor of " +
            file.path());
  for (const TensorView& tensor : file.tensors()) {
    try {
      static_cast<void>(importance.weights(tensor.name, tensor.cols(), matrices_of(tensor)));
    } catch (const Error& error) {
      throw Error(path, error.what());
    }
  }
}

std::optional<DType> most_of(const std::map<DType, std::uint64_t>& weights) {
  if (weights.empty()) return std::nullopt;
  return std::ranges::max_element(weights, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

void set_file_type(GgufWriter& writer, const std::map<DType, std::uint64_t>& weights) {
  const auto most = most_of(weights);
  if (!most) return;
  if (const Mix* mix = find_mix(name(*most)); mix != nullptr)
    writer.set("general.file_type", mix->file_type);
  if (dtype_info(*most).block_values > 1)
    writer.set("general.quantization_version", kQuantizationVersion);
}

void declare(GgufWriter& writer, const GgufFile& file, const QuantizePlan& plan) {
  for (const GgufKey& key : file.keys()) {
    if (!key.key.starts_with("split.")) writer.set(key.key, copy_value(file, key.value));
  }
  writer.set("general.quantization_version", kQuantizationVersion);
  writer.set("general.file_type", plan.mix->file_type);
  for (const PlannedTensor& planned : plan.tensors)
    writer.declare(planned.source->name, planned.type, planned.source->shape);
}

void declare_importance(GgufWriter& writer, const ImportanceMatrix& importance,
                        const std::string& file) {
  writer.set("quantize.imatrix.file", file);
  if (!importance.datasets.empty())
    writer.set("quantize.imatrix.dataset", importance.datasets.front());
  writer.set("quantize.imatrix.entries_count",
             static_cast<std::int32_t>(importance.entries.size()));
  writer.set("quantize.imatrix.chunks_count", static_cast<std::int32_t>(importance.chunks));
}

}  // namespace cria
