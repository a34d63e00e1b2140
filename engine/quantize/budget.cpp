#include "engine/quantize/budget.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "model/plural.h"

namespace cria {
namespace {

constexpr std::uint64_t kMaxUnits = std::uint64_t{1} << 18;

constexpr DType kTypesK[] = {DType::Q2_K, DType::Q3_K, DType::Q4_K,
                             DType::Q5_K, DType::Q6_K, DType::Q8_0};
constexpr DType kCodebookTypes[] = {DType::IQ1_S,  DType::IQ1_M,  DType::IQ2_XXS,
                                    DType::IQ2_XS, DType::IQ2_S,  DType::IQ3_XXS,
                                    DType::IQ3_S,  DType::IQ4_XS, DType::IQ4_NL};

// Bytes beyond the tensors' smallest types, in units that serve all of them.
class Sizes {
 public:
  Sizes(std::span<const std::vector<TypeCost>> tensors, std::uint64_t budget) {
    std::uint64_t common = 0, least = 0, most = 0;
    for (const std::vector<TypeCost>& types : tensors) {
      const auto [low, high] = std::ranges::minmax_element(types, {}, &TypeCost::bytes);
      smallest_.push_back(low->bytes);
      for (const TypeCost& type : types) common = std::gcd(common, type.bytes - low->bytes);
      least += low->bytes;
      most += high->bytes - low->bytes;
    }
    fits_ = least <= budget;
    const std::uint64_t room = fits_ ? std::min(budget - least, most) : 0;
    unit_ = std::max({common, (room + kMaxUnits - 1) / kMaxUnits, std::uint64_t{1}});
    units_ = room / unit_;
  }
  [[nodiscard]] bool fit() const { return fits_; }
  [[nodiscard]] std::size_t units() const { return units_; }
  [[nodiscard]] std::size_t units_of(std::size_t tensor, const TypeCost& type) const {
    return (type.bytes - smallest_[tensor] + unit_ - 1) / unit_;
  }

 private:
  std::vector<std::uint64_t> smallest_;
  std::uint64_t unit_ = 1;
  std::size_t units_ = 0;
  bool fits_ = false;
};

std::string_view next_word(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

DType type_named(std::string_view name, const std::string& file, const std::string& where) {
  const DTypeInfo* const type = find_dtype(name);
  if (type == nullptr || type->dot == DotClass::None)
    throw Error(file, "expected a tensor type such as Q4_K, got " + std::string(name), where);
  return type->id;
}

}  // namespace

std::optional<std::vector<std::size_t>> best_types(std::span<const std::vector<TypeCost>> tensors,
                                                   std::uint64_t budget) {
  const Sizes sizes(tensors, budget);
  if (!sizes.fit()) return std::nullopt;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::size_t n = sizes.units() + 1;
  std::vector<double> least(n), next(n);  // damage of the tensors so far in at most so many units
  std::vector<std::vector<std::uint8_t>> picks;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::ranges::fill(next, kNever);
    std::vector<std::uint8_t>& pick = picks.emplace_back(n);
    for (std::size_t k = 0; k < tensors[t].size(); ++k) {
      for (std::size_t u = sizes.units_of(t, tensors[t][k]), from = 0; u < n; ++u, ++from) {
        const double damage = least[from] + tensors[t][k].damage;
        if (!(damage < next[u])) continue;
        next[u] = damage;
        pick[u] = static_cast<std::uint8_t>(k);
      }
    }
    std::swap(least, next);
  }
  std::vector<std::size_t> chosen(tensors.size());
  std::size_t left = sizes.units();
  for (std::size_t t = tensors.size(); t-- > 0;) {
    chosen[t] = picks[t][left];
    left -= sizes.units_of(t, tensors[t][chosen[t]]);
  }
  return chosen;
}

std::vector<DType> types_named(std::string_view names) {
  std::vector<DType> types;
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find(','));
    names.remove_prefix(std::min(one.size() + 1, names.size()));
    const bool all = one == "all";
    if (all || one == "K") types.insert(types.end(), std::begin(kTypesK), std::end(kTypesK));
    if (all) types.insert(types.end(), std::begin(kCodebookTypes), std::end(kCodebookTypes));
    if (all || one == "K") continue;
    types.push_back(type_named(one, "", ""));
    if (dtype_info(types.back()).block_values == 1 || find_mix(one) == nullptr)
      throw Error("", "expected a type with blocks, such as Q4_K, got " + std::string(one));
  }
  return types;
}

std::string type_plan_text(const QuantizePlan& plan, std::string_view heading) {
  std::string text = "# " + std::string(heading) +
                     "\n# Edit types as you like. Tensors without a line get the type that most "
                     "weights have.\n";
  for (const PlannedTensor& tensor : plan.tensors) {
    if (!tensor.free) continue;
    text += std::string(tensor.source->name) + " " + std::string(name(tensor.type)) + "  # " +
            counted(tensor.bytes(), "byte") + (tensor.note.empty() ? "" : ", " + tensor.note) +
            "\n";
  }
  return text;
}

ChosenTypes read_type_plan(std::string_view text, const GgufFile& file, const std::string& path) {
  ChosenTypes chosen;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const std::string where = "line " + std::to_string(number);
    const std::string_view tensor = next_word(line), type = next_word(line);
    if (tensor.empty()) continue;
    if (type.empty() || !next_word(line).empty())
      throw Error(path, "expected a tensor and its type, such as blk.0.attn_q.weight Q4_K", where);
    if (file.tensor(tensor) == nullptr)
      throw Error(path, "the model has no tensor " + std::string(tensor), where);
    const TypeCost cost{type_named(type, path, where), 0, 0};
    if (!chosen.emplace(tensor, cost).second)
      throw Error(path, "a second line for tensor " + std::string(tensor), where);
  }
  return chosen;
}

}  // namespace cria
