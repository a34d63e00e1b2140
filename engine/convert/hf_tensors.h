// Converts the tensors of a Hugging Face directory to GGUF (HfSources) and back (HfTarget), by the
// names and row orders of a class.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/convert/hf_class.h"
#include "engine/convert/row_stream.h"
#include "model/weights.h"

namespace cria {

/// The row (HfRows::ValueColumns: column) of the directory's tensor that becomes `row` of a GGUF
/// tensor of n rows, of_expert of each expert. Export inverts it.
std::uint64_t hf_source_row(HfRows kind, std::uint64_t row, std::uint64_t n,
                            std::uint64_t of_expert, const HfConfig& config);

/// The config and the directory outlive this and the rows made from it.
class HfSources {
 public:
  HfSources(const HfConfig& config, const SafetensorsDirectory& weights);

  /// The shape of the GGUF tensor; nullopt if the directory lacks it, empty for a single number.
  [[nodiscard]] std::optional<std::vector<std::uint64_t>> shape_of(std::string_view gguf) const;
  /// A tensor's rows. A reordered vector has rows of one value. Throws Error naming the directory's
  /// tensor: missing, of a wrong shape or type.
  [[nodiscard]] WeightRowsPtr rows_of(const WantedTensors::Wanted& wanted);
  /// Tensors of the directory that have not been used.
  [[nodiscard]] const std::set<std::string_view>& left() const { return left_; }
  void drop(std::string_view name) { left_.erase(name); }
  /// One number per layer. Throws Error if a tensor is missing or has several values.
  [[nodiscard]] std::vector<float> numbers_of(const HfNumber& number);
  /// The directory's name of a GGUF tensor, for messages.
  [[nodiscard]] std::string name_of(std::string_view gguf) const;

 private:
  struct Source {
    HfRows rows = HfRows::Same;
    std::vector<const SafeTensor*> parts;  ///< one, or those to stack
    bool stacked = false;
  };
  [[nodiscard]] const SafeTensor* find(const std::string& name) const;
  /// MLX's packing of the tensor; nullopt without packing.
  [[nodiscard]] std::optional<MlxPacking> packing_of(const SafeTensor& tensor) const;
  /// Shape of the values, rows first.
  [[nodiscard]] std::vector<std::uint64_t> unpacked_shape(const SafeTensor& tensor) const;
  /// The same for a GGUF tensor: experts have a dimension of their own.
  [[nodiscard]] std::vector<std::uint64_t> shape_for(std::string_view gguf,
                                                     const SafeTensor& tensor) const;
  WeightRowsPtr latent_rows(const SafeTensor& both, HfRows kind, std::uint64_t rows,
                            std::uint64_t cols);
  [[nodiscard]] WeightRowsPtr unscaled_rows_of(const WantedTensors::Wanted& wanted);
  void resolve(const HfTensor& name);
  void resolve(const HfTensor& name, std::string_view ending, std::uint32_t layer);
  WeightRowsPtr part_rows(const SafeTensor& tensor, std::uint64_t rows, std::uint64_t cols);
  void expect_shape(const Source& source, const WantedTensors::Wanted& wanted) const;
  const SafeTensor& beside(const SafeTensor& tensor, std::string_view ending,
                           std::string_view other);

  const HfConfig& config_;
  const SafetensorsDirectory& weights_;
  std::map<std::string, Source, std::less<>> sources_;  // by GGUF name
  std::set<std::string_view> left_;
};

/// A tensor to export. Views into the GGUF file and the config.
class HfTarget {
 public:
  std::string name;
  std::vector<std::uint64_t> shape;  ///< rows first

  [[nodiscard]] DType type() const {  ///< type of its GGUF tensors
    return parts_.empty() ? DType::F32 : parts_.front().tensor->dtype;
  }
  [[nodiscard]] std::vector<std::string_view> made_of() const;  ///< names in the GGUF file
  /// The rows of the shape; a reordered vector has rows of one value.
  [[nodiscard]] WeightRowsPtr rows() const;

 private:
  friend std::vector<HfTarget> hf_targets(const HfConfig& config, const GgufFile& file,
                                          const std::function<bool(std::string_view)>& wanted);
  struct Part {
    const TensorView* tensor;
    HfRows rows;
  };
  [[nodiscard]] std::vector<std::uint64_t> shape_of_parts() const;
  [[nodiscard]] WeightRowsPtr part_rows(const Part& part, std::uint64_t cols) const;
  [[nodiscard]] WeightRowsPtr reordered(std::vector<WeightRowsPtr> parts) const;

  const HfConfig* config_ = nullptr;
  std::vector<Part> parts_;               ///< in the order of the rows
  std::optional<float> value_;            ///< a number without parts
  std::uint64_t number_ = 0, count_ = 1;  ///< one of `count_` tensors that GGUF stacks
  bool stacked_ = false;
};

/// All tensors, layer by layer in the order of the class. wanted: filters the file's tensors.
std::vector<HfTarget> hf_targets(const HfConfig& config, const GgufFile& file,
                                 const std::function<bool(std::string_view)>& wanted);

}  // namespace cria
