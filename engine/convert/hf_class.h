// A class of Hugging Face models ("LlamaForCausalLM") as data: what its config.json, its tensor
// names and the order of their rows mean. convert reads it in one direction, export in the other.
// families/ has one entry per class.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria {

class HfExport;
class HfImport;

/// Maps the rows of a Hugging Face tensor to a GGUF tensor.
enum class HfRows : std::uint8_t {
  Same,
  Pairs,       ///< in each head, rotated pairs (i, i + d/2) become adjacent
  PlusOne,     ///< 1 is added to the values
  OneRow,      ///< a GGUF vector is a matrix of one row there
  BehindTwo,   ///< the first two rows are left out; convert only
  Padded,      ///< rows behind the last are 0; convert only
  Flat,        ///< one dimension there
  Taps,        ///< a dimension of 1 between channels and taps there
  Decays,      ///< -e^x of the values; dimensions of 1 are left out there
  HeadDecays,  ///< the same, but [1, 1, heads, 1] there
  // Heads of linear attention (HfLinearHeads). There, the value heads of a key head are neighbours;
  // in GGUF, value heads have key heads in turn.
  ValueRows,
  ValueDecays,   ///< the same of vectors, and -e^x
  ValueTail,     ///< rows behind queries and keys
  ValueTaps,     ///< the same, and Taps
  ValueColumns,  ///< columns
  // The fused tensor has for each key head its query, key, values and gates.
  NextQkv,
  NextGates,
  // The fused tensor has queries, keys and values grouped by KV head. Queries and keys are paired.
  GroupQueries,
  GroupKeys,
  GroupValues,
  // The columns of each head's keys and the rows of its values form one tensor. Convert leaves it
  // whole unless the class says otherwise (split_latent).
  LatentKeys,
  LatentValues,
  // One of two matrices that share each expert's rows.
  FirstHalf,
  SecondHalf,
  EvenRows,
  OddRows,
  // The matrix is transposed in each expert, alone or sharing its columns with another one.
  Columns,
  FirstColumns,
  SecondColumns,
  EvenColumns,
  OddColumns,
};

/// True if two GGUF matrices share the rows or columns of the Hugging Face tensor.
constexpr bool is_half(HfRows rows) { return rows >= HfRows::FirstHalf && rows != HfRows::Columns; }
constexpr bool is_transposed(HfRows rows) { return rows >= HfRows::Columns; }
constexpr bool is_group(HfRows rows) {
  return rows >= HfRows::GroupQueries && rows <= HfRows::GroupValues;
}
constexpr bool is_interleaved(HfRows rows) {
  return rows == HfRows::EvenRows || rows == HfRows::OddRows || rows == HfRows::EvenColumns ||
         rows == HfRows::OddColumns;
}

constexpr bool is_latent(HfRows rows) {
  return rows == HfRows::LatentKeys || rows == HfRows::LatentValues;
}
constexpr bool is_next(HfRows rows) { return rows == HfRows::NextQkv || rows == HfRows::NextGates; }
/// True for rows of linear attention.
constexpr bool is_linear(HfRows rows) {
  return rows >= HfRows::ValueRows && rows <= HfRows::NextGates;
}
constexpr bool is_decay(HfRows rows) {
  return rows == HfRows::Decays || rows == HfRows::HeadDecays || rows == HfRows::ValueDecays;
}
/// True if rows (or columns) of the GGUF tensor have another order, or are apart, in the directory.
constexpr bool is_reordered(HfRows rows) {
  return rows == HfRows::Pairs || rows == HfRows::BehindTwo || is_linear(rows) ||
         rows >= HfRows::GroupQueries;
}
constexpr bool has_taps(HfRows rows) { return rows == HfRows::Taps || rows == HfRows::ValueTaps; }

/// Heads of linear attention: numbers and sizes.
struct HfLinearHeads {
  std::uint64_t keys = 1, values = 1, key_dim = 1, value_dim = 1;
};

/// The row of a Hugging Face head that becomes `row` of the GGUF file. Heads have head_dim rows.
/// GGUF rotates adjacent rows (RopeStyle::Adjacent), Hugging Face rows i and i + d/2.
constexpr std::uint64_t hf_row(std::uint64_t row, std::uint64_t head_dim) {
  const std::uint64_t in_head = row % head_dim;
  return row - in_head + in_head / 2 + (in_head % 2) * (head_dim / 2);
}

/// A tensor's names. "#" is the number of a layer, "%" that of a part (expert, head) that GGUF
/// stacks. Names without an ending mean NAME.weight and, if present, NAME.bias.
struct HfTensor {
  std::string_view gguf, hf;
  HfRows rows = HfRows::Same;
};

/// A GGUF key with one number per layer that Hugging Face stores as tensors of one value.
struct HfNumber {
  std::string_view gguf;               ///< the whole key
  std::string_view hf;                 ///< the tensor, with "#" for the layer
  std::optional<float> fallback = {};  ///< value if the tensor is missing
};

/// One statement about config.json beyond the common keys (hf_rules.h). Empty: nothing to do.
struct HfRule {
  std::function<void(HfImport&)> to_gguf;
  std::function<void(HfExport&)> to_json;
};

/// Keys of "rope_scaling" for longrope in addition to the factors.
enum class HfLongRope : std::uint8_t {
  None,        ///< the class has no longrope
  Factors,     ///< nothing: its code accepts no other key
  Context,     ///< the original context
  Magnitudes,  ///< the same, and scales of queries and keys in short and long contexts
};

struct HfClass {
  std::string_view name = {};        ///< "LlamaForCausalLM": in "architectures"
  std::string_view arch = {};        ///< general.architecture of its GGUF files
  std::string_view model_type = {};  ///< "llama": "model_type" in config.json
  // The keys that nearly all classes share.
  bool attention_bias = false;     ///< q, k and v always have biases; else "attention_bias" decides
  bool window_by_default = false;  ///< "sliding_window" counts without "use_sliding_window"
  bool tied = false;               ///< default of "tie_word_embeddings"
  bool mlp_bias = false;           ///< "mlp_bias" may be true
  bool partial_rotation = false;   ///< RoPE may rotate a part of each head
  double default_part = 1;         ///< default of "partial_rotary_factor"
  HfLongRope longrope = HfLongRope::None;
  bool attention = true;           ///< false: layers have neither heads nor a feed-forward part
  bool projections = false;        ///< "2_Dense" and "3_Dense" become dense_2 and dense_3
  bool latent = false;             ///< latent attention: keys of its own give the sizes of heads
  bool split_latent = false;       ///< GGUF has the keys and values of attn_kv_b apart
  bool mscale = false;             ///< GGUF has a key for "mscale_all_dim"
  bool ropes_by_type = false;      ///< "rope_parameters" may differ by "layer_types"
  bool proportional = false;       ///< a partial rotation uses the frequencies of a full one
  bool by_layer = false;           ///< rules handle widths and KV heads that differ among layers
  bool listed_merges = false;      ///< a byte-fallback vocabulary keeps its list of merges
  std::string_view defaults = {};  ///< JSON: defaults of missing keys in a nested config
  std::string_view head_dim = "head_dim";  ///< key of the head size of layers without a window
  std::string_view eps = "rms_norm_eps";
  float default_eps = 1e-6F;
  std::string_view activations = "silu";  ///< accepted names; the first is the default
  std::string_view activation_key = "hidden_act", layers_key = "num_hidden_layers";
  std::string_view quantization = {};  ///< "quant_method" that can be read
  /// All tensors that a directory may have. If two have the same GGUF name, the first present wins.
  std::vector<HfTensor> tensors = {};
  std::vector<HfRule> rules = {};             ///< further keys, in the order of writing
  std::vector<HfNumber> numbers = {};         ///< tensors that become keys
  bool predicting_layers = false;             ///< drop MTP layers behind the last layer
  std::string_view predicting = {};           ///< prefix of other MTP tensors to drop
  std::vector<std::string_view> unused = {};  ///< endings of tensors that are not used
  /// "layer_types" or "hybrid_override_pattern" must have it, or a key of this name a number above
  /// 0; else another class of this name counts.
  std::string_view only_with = {};
  /// Other names of keys of config.json, which count if the usual ones are missing.
  std::vector<std::pair<std::string_view, std::string_view>> aliases = {};
};

/// All classes. Export tries the classes of an architecture in this order.
std::span<const HfClass> hf_classes();
/// Null if unknown. name: "LlamaForCausalLM"; model_type: "gemma3_text".
const HfClass* find_hf_class(std::string_view name);
const HfClass* find_hf_class_of_type(std::string_view model_type);
/// Multimodal classes: "text_config" in their config.json describes the text model.
std::span<const std::string_view> hf_wrappers() noexcept;

/// Replaces the first `mark` by a number.
std::string with_number(std::string_view text, char mark, std::uint64_t number);
/// The endings to append to both names: {""} if they are complete.
std::span<const std::string_view> endings_of(const HfTensor& tensor);

}  // namespace cria
