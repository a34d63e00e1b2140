// Which type each tensor of a model gets when it is quantized: the mixes ("Q4_K_M"), their one
// table of rules, and the plan that they give for a file.
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

/// What users call a quantization: most matrices have its type, the rules tell the exceptions.
struct Mix {
  std::string_view name;    ///< "Q4_K_M"
  std::uint32_t file_type;  ///< general.file_type
  DType type;
};
/// All mixes, from the largest to the smallest.
std::span<const Mix> mixes() noexcept;
/// By name, in any case; "Q3_K", "Q4_K", "Q5_K" are their _M. Null if there is none.
const Mix* find_mix(std::string_view name) noexcept;

/// The type that most weights have; nothing of none.
std::optional<DType> most_of(const std::map<DType, std::uint64_t>& weights);
/// Sets general.file_type by the type of most weights of matrices, and general.quantization_version
/// where these are blocks. weights: how many each type has.
void set_file_type(GgufWriter& writer, const std::map<DType, std::uint64_t>& weights);

/// Which layers a rule speaks of; n is their number. Divisions round down.
enum class Layers : std::uint8_t {
  All,
  First2,
  First4,
  FirstSixteenth,  ///< layer < n/16
  FirstEighth,     ///< layer < n/8
  Middle,          ///< n/8 ≤ layer < 7n/8
  Spread,          ///< the first and last eighth, and every third of those between
};
std::string_view name(Layers layers) noexcept;

/// Which models a rule speaks of.
enum class Models : std::uint8_t {
  All,
  Grouped,           ///< at least 4 query heads share a key head: attn_k and attn_v are small
  GroupedOrExperts,  ///< or there are at least 4 experts
  Large,             ///< 80 layers, as 70B has, key heads shared
  Experts,           ///< any number of them
  EightExperts,
  Weighted,    ///< with an importance matrix
  Unweighted,  ///< without
};
std::string_view name(Models models) noexcept;

/// One line of the table. The first line that fits a tensor decides; if none does, it gets the
/// mix's type.
struct MixRule {
  std::string_view mixes;  ///< names separated by spaces; "*": all that quantize
  std::string_view
      tensors;  ///< part of the name between "blk.N." and ".weight", "*" for any ending
  Layers layers;
  Models models;
  DType type;
};
std::span<const MixRule> mix_rules() noexcept;

/// A type with large blocks, and what stands in for it where rows do not divide into them.
struct Fallback {
  DType from, to;
};
std::span<const Fallback> fallbacks() noexcept;

/// "ffn_down": a tensor name without "blk.N." and ".weight"; and the layer, if it has one.
struct TensorRole {
  std::string_view role;
  std::optional<std::uint32_t> layer;
};
TensorRole tensor_role(std::string_view name) noexcept;
/// Whether a matrix of that name is quantized at all: norms, biases, routers of experts and tables
/// of positions are small and matter.
bool is_quantizable(std::string_view name) noexcept;

/// What the user asks for beyond a mix.
struct QuantizeOptions {
  const Mix* mix = nullptr;
  bool pure = false;              ///< every matrix gets the mix's type
  bool allow_requantize = false;  ///< from lossy types too
  bool weighted = false;          ///< there is an importance matrix
  std::optional<DType> output_type, token_embedding_type;
  std::vector<std::pair<Regex, DType>>
      tensor_types;  ///< the first whose expression is found in a name wins
};

struct PlannedTensor {
  const TensorView* source = nullptr;
  DType type = DType::F32;  ///< in the result
  std::string note;         ///< why it is not what the mix would give, or ""

  [[nodiscard]] bool copied() const { return type == source->dtype; }
  [[nodiscard]] std::uint64_t bytes() const {
    return dtype_info(type).row_bytes(source->cols()) * source->rows();
  }
};

struct QuantizePlan {
  const Mix* mix = nullptr;
  std::vector<PlannedTensor> tensors;  ///< in the order of the file
};

/// Throws Error naming the tensor that is of a lossy type already, and for an expression that fits
/// no tensor. The file must outlive the plan.
QuantizePlan plan_quantize(const GgufFile& file, const QuantizeOptions& options);

/// Why a mix of so few bits wants an importance matrix; "" if it does well without.
std::string_view advice_without_importance(const Mix& mix) noexcept;

/// How many matrices a tensor is, one after the other (experts): each has importance of its own.
std::uint64_t matrices_of(const TensorView& tensor) noexcept;

/// Throws Error naming the importance's path if it is of another model than the file: no entry is
/// of one of its tensors, or one is of another size.
void require_importance_of(const GgufFile& file, const ImportanceMatrix& importance,
                           const std::string& path);

/// Gives the writer the file's keys (not those of a split), file type and quantization version, and
/// declares the tensors.
void declare(GgufWriter& writer, const GgufFile& file, const QuantizePlan& plan);
/// Writes down where the importance came from, as others do: keys quantize.imatrix.*. file: its
/// name.
void declare_importance(GgufWriter& writer, const ImportanceMatrix& importance,
                        const std::string& file);

}  // namespace cria
