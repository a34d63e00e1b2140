// The tensors of a Hugging Face directory that a GGUF file is exported to: the way back of
// HfSources.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/architectures/hf_form.h"
#include "engine/convert/weight_rows.h"

namespace cria {

/// Views into the file and the config that it was made of.
class HfTarget {
 public:
  std::string name;
  std::vector<std::uint64_t> shape;  ///< rows first

  /// The type of what it is made of.
  [[nodiscard]] DType type() const {
    return parts_.empty() ? DType::F32 : parts_.front().tensor->dtype;
  }
  [[nodiscard]] std::vector<std::string_view> made_of() const;  ///< tensors of the GGUF file
  /// As many rows as the shape says; of a vector that is reordered each value is one.
  [[nodiscard]] std::unique_ptr<WeightRows> rows() const;

 private:
  friend std::vector<HfTarget> hf_targets(const HfForm& form, const HfConfig& config,
                                          const GgufFile& file,
                                          const std::function<bool(std::string_view)>& wanted);
  struct Part {
    const TensorView* tensor;
    HfRows rows;
  };
  [[nodiscard]] std::vector<std::uint64_t> shape_of_parts() const;
  [[nodiscard]] std::unique_ptr<WeightRows> part_rows(const Part& part, std::uint64_t cols) const;

  std::vector<Part> parts_;  ///< of the GGUF file, in the order of its rows there
  std::uint64_t head_ = 0;
  std::function<std::uint64_t(std::uint64_t row)> groups_;
  std::optional<float> value_;  ///< a number without parts
  std::uint64_t number_ = 0,
                count_ = 1;  ///< this is one of `count_` that the GGUF file has stacked
  bool stacked_ = false;
};

/// In the order of the form, layer by layer. wanted: which tensors of the file.
std::vector<HfTarget> hf_targets(const HfForm& form, const HfConfig& config, const GgufFile& file,
                                 const std::function<bool(std::string_view)>& wanted);

}  // namespace cria
