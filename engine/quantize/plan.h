// Chooses each tensor's type when a model is quantized: the mixes ("Q4_K_M"), their table of rules,
// and the plan for a file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/quantize/importance.h"
#include "model/gguf/gguf.h"
#include "model/gguf/writer.h"
#include "tokenizer/regex.h"

namespace cria {

/// A named quantization: most matrices have its type, the rules give the exceptions.
struct Mix {
  std::string_view name;    ///< "Q4_K_M"
  std::uint32_t file_type;  ///< general.file_type
  DType type;
};
/// All mixes, from the largest to the smallest.
std::span<const Mix> mixes() noexcept;
/// Ignores case; "Q3_K", "Q4_K", "Q5_K" mean their _M. Null if unknown.
const Mix* find_mix(std::string_view name) noexcept;

/// The main type of the weights; nullopt without weights.
std::optional<DType> most_of(const std::map<DType, std::uint64_t>& weights);
/// Sets general.file_type by the main type of the matrices, and general.quantization_version if it
/// has blocks. weights: the number of weights per type.
void set_file_type(GgufWriter& writer, const std::map<DType, std::uint64_t>& weights);

/// The layers of a rule; n is the number of layers. Divisions round down.
enum class Layers : std::uint8_t {
  All,
  First2,
  First4,
  FirstSixteenth,  ///< layer < n/16
  FirstEighth,     ///< layer < n/8
  Middle,          ///< n/8 ≤ layer < 7n/8
  Spread,          ///< the first and last eighth, every third layer between
};
std::string_view name(Layers layers) noexcept;

/// The models of a rule.
enum class Models : std::uint8_t {
  All,
  Grouped,           ///< at least 4 query heads per KV head: attn_k and attn_v are small
  GroupedOrExperts,  ///< or there are at least 4 experts
  Large,             ///< 80 layers with shared KV heads, as 70B has
  Experts,           ///< any number of them
  EightExperts,
  Weighted,    ///< with an importance matrix
  Unweighted,  ///< without
};
std::string_view name(Models models) noexcept;

/// One row of the table. The first row that matches a tensor decides; otherwise it gets the mix's
/// type.
struct MixRule {
  std::string_view mixes;    ///< names separated by spaces; "*": all but floats
  std::string_view tensors;  ///< the name between "blk.N." and ".weight"; "*" for any ending
  Layers layers;
  Models models;
  DType type;
};
std::span<const MixRule> mix_rules() noexcept;

/// A type with large blocks, and its replacement if they do not divide the rows.
struct Fallback {
  DType from, to;
};
std::span<const Fallback> fallbacks() noexcept;
/// The type, its fallback if its blocks do not divide the tensor's rows, or F16 if neither does.
DType dividing_type(const TensorView& tensor, DType wanted) noexcept;

/// "ffn_down": a tensor name without "blk.N." and ".weight"; and the layer, if it has one.
struct TensorRole {
  std::string_view role;
  std::optional<std::uint32_t> layer;
};
TensorRole tensor_role(std::string_view name) noexcept;
/// False for norms, biases, routers, tables of positions, and the convolutions and step sizes of
/// recurrent layers, which are small and sensitive.
bool is_quantizable(std::string_view name) noexcept;

/// A type that a tensor has, or may get.
struct TypeCost {
  DType type{};
  std::uint64_t bytes = 0;  ///< size of the tensor; 0: not known
  double damage = 0;        ///< KL divergence from the exact model that the type adds
};
/// Types by the tensors' names.
using ChosenTypes = std::map<std::string, TypeCost, std::less<>>;

/// The user's choices.
struct QuantizeOptions {
  const Mix* mix = nullptr;
  bool pure = false;              ///< every matrix gets the mix's type
  bool allow_requantize = false;  ///< from lossy types too
  bool weighted = false;          ///< with an importance matrix
  std::optional<DType> output_type, token_embedding_type;
  std::vector<std::pair<Regex, DType>> tensor_types;  ///< the first match in a name wins
  ChosenTypes
      chosen;  ///< instead of the mix's, for tensors whose types the fields above leave open
};

struct PlannedTensor {
  const TensorView* source = nullptr;
  DType type = DType::F32;  ///< in the result
  std::string note;         ///< why it differs from the mix, or ""
  bool free = false;        ///< a matrix whose type the user has left open

  /// Keeps its values, and its bytes but for the order of interleaved rows.
  [[nodiscard]] bool copied() const { return type == dtype_info(source->dtype).plain; }
  [[nodiscard]] std::uint64_t bytes() const {
    return dtype_info(type).row_bytes(source->cols()) * source->rows();
  }
};

struct QuantizePlan {
  const Mix* mix = nullptr;
  std::vector<PlannedTensor> tensors;  ///< in the order of the file
};

/// Throws Error naming a tensor that already has a lossy type, and for an expression without a
/// match. The file must outlive the plan.
QuantizePlan plan_quantize(const GgufFile& file, const QuantizeOptions& options);

/// Why a mix of few bits needs an importance matrix; "" for others.
std::string_view advice_without_importance(const Mix& mix) noexcept;

/// The number of concatenated matrices (experts), each with its own importance.
std::uint64_t matrices_of(const TensorView& tensor) noexcept;

/// Throws Error naming the importance matrix's path if it belongs to a different model: sizes
/// differ or no names match.
void require_importance_of(const GgufFile& file, const ImportanceMatrix& importance,
                           const std::string& path);

/// Copies the file's keys to the writer except split.*, sets file type and quantization version,
/// and declares the tensors.
void declare(GgufWriter& writer, const GgufFile& file, const QuantizePlan& plan);
/// Records the origin of the importance matrix in keys quantize.imatrix.*, as other programs do.
void declare_importance(GgufWriter& writer, const ImportanceMatrix& importance,
                        const std::string& file);

}  // namespace cria
