// Where the tensors of a GGUF file come from in a Hugging Face directory: names resolved by the
// class's form, shapes, and rows as they will stand.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/architectures/hf_form.h"
#include "engine/convert/weight_rows.h"
#include "model/weights.h"

namespace cria {

/// Both outlive what is made of them.
class HfSources {
 public:
  HfSources(const HfForm& form, const HfConfig& config, const SafetensorsDirectory& weights);

  /// The shape that the GGUF tensor would have, or nothing if the directory has no such tensor;
  /// empty of a single number.
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> shape_of(std::string_view gguf) const;
  /// The rows of a tensor. Those of a vector that are reordered have one value each. Throws Error
  /// naming the directory's tensor: missing, of a wrong shape or type.
  [[nodiscard]] std::unique_ptr<WeightRows> rows_of(const WantedTensors::Wanted& wanted);
  /// Tensors of the directory that nothing was made of.
  [[nodiscard]] const std::set<std::string_view>& left() const { return left_; }
  void leave_out(std::string_view name) { left_.erase(std::string_view(name)); }
  /// One number for each layer, by the name of their tensors. Throws Error for what is no such
  /// number.
  [[nodiscard]] std::vector<float> numbers_of(const HfNumber& number);
  /// The directory's name for a tensor that it lacks.
  [[nodiscard]] std::string name_of(std::string_view gguf) const;

 private:
  struct Source {
    HfRows rows = HfRows::Same;
    std::vector<const SafeTensor*> parts;  ///< one, or those that are stacked
    bool stacked = false;
  };
  [[nodiscard]] const SafeTensor* find(const std::string& name) const;
  /// How MLX packed the tensor; nothing where it did not.
  [[nodiscard]] std::optional<MlxPacking> packing_of(const SafeTensor& tensor) const;
  /// Of the values, rows first.
  [[nodiscard]] std::vector<std::uint64_t> unpacked_shape(const SafeTensor& tensor) const;
  void resolve(const HfTensor& name);
  void resolve(const HfTensor& name, std::string_view ending, std::uint32_t layer);
  std::unique_ptr<WeightRows> part_rows(const SafeTensor& tensor, std::uint64_t rows,
                                        std::uint64_t cols);
  void expect_shape(const Source& source, const WantedTensors::Wanted& wanted) const;
  const SafeTensor& beside(const SafeTensor& tensor, std::string_view ending,
                           std::string_view other);

  const HfForm& form_;
  const HfConfig& config_;
  const SafetensorsDirectory& weights_;
  std::map<std::string, Source, std::less<>> sources_;  // by GGUF name
  std::set<std::string_view> left_;
};

}  // namespace cria
