// The values of a tensor row by row, whatever file holds them and in whatever form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "model/gguf/gguf.h"
#include "model/hf/config.h"
#include "model/safetensors/safetensors.h"

namespace cria {

/// Immutable; safe to use from several threads. Views into the file it was made from.
class WeightRows {
 public:
  WeightRows(std::uint64_t rows, std::uint64_t cols) : rows_(rows), cols_(cols) {}
  virtual ~WeightRows() = default;
  WeightRows(const WeightRows&) = delete;
  WeightRows& operator=(const WeightRows&) = delete;

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t cols() const { return cols_; }
  /// A row's cols() values as floats: exactly, but for those of F64.
  virtual void read(std::uint64_t row, float* out) const = 0;
  /// The row in a type that holds it as it is, without going through floats: false if the type
  /// is not such a one.
  virtual bool copy(std::uint64_t /*row*/, DType /*type*/, std::byte* /*out*/) const {
    return false;
  }
  /// The type that says the same, or comes nearest.
  [[nodiscard]] virtual DType nearest() const = 0;
  /// "BF16", "MLX 4 bits".
  [[nodiscard]] virtual std::string form() const = 0;
  /// Whether nearest() is another form with an error that is to be told.
  [[nodiscard]] virtual bool packed() const { return false; }

 private:
  std::uint64_t rows_, cols_;
};

/// A tensor of floats of rows·cols values. Throws Error for types that are not converted.
std::unique_ptr<WeightRows> float_rows(const SafeTensor& tensor, std::uint64_t rows,
                                       std::uint64_t cols);
/// A tensor of a GGUF file, dequantized; rows·cols are its values.
std::unique_ptr<WeightRows> gguf_rows(const TensorView& tensor, std::uint64_t rows,
                                      std::uint64_t cols);
/// A matrix that MLX packed, or stacked ones: rows of codes of `bits` bits each, one after the
/// other from the lowest bit of the first byte, and w = scale·code + bias for each group of a row
/// (https://ml-explore.github.io/mlx, mlx.core.quantize). Throws Error for shapes and types that do
/// not fit.
std::unique_ptr<WeightRows> mlx_rows(const SafeTensor& codes, const SafeTensor& scales,
                                     const SafeTensor& biases, const MlxPacking& packing,
                                     std::uint64_t rows, std::uint64_t cols);

}  // namespace cria
