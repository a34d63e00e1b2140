// Weights row by row in any form, and their encoded stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/convert/hf_config.h"
#include "kernels/kernels.h"
#include "model/gguf/gguf.h"
#include "model/safetensors/safetensors.h"

namespace cria {

/// Immutable and thread-safe. Views into the file it was made from.
class WeightRows {
 public:
  WeightRows(std::uint64_t rows, std::uint64_t cols) : rows_(rows), cols_(cols) {}
  virtual ~WeightRows() = default;
  WeightRows(const WeightRows&) = delete;
  WeightRows& operator=(const WeightRows&) = delete;

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t cols() const { return cols_; }
  /// Writes a row's cols() values as floats: exact except for F64.
  virtual void read(std::uint64_t row, float* out) const = 0;
  /// Copies the row's bits as `type`. False if that would change the values.
  virtual bool copy(std::uint64_t /*row*/, DType /*type*/, std::byte* /*out*/) const {
    return false;
  }
  /// The type with the same values, or the nearest.
  [[nodiscard]] virtual DType nearest() const = 0;
  /// "BF16", "MLX 4 bits".
  [[nodiscard]] virtual std::string form() const { return std::string(name(nearest())); }
  /// True if nearest() packs differently, with an error to report.
  [[nodiscard]] virtual bool packed() const { return false; }

 private:
  std::uint64_t rows_, cols_;
};
using WeightRowsPtr = std::unique_ptr<WeightRows>;

/// A float tensor of rows·cols values. Throws Error for other types.
WeightRowsPtr float_rows(const SafeTensor& tensor, std::uint64_t rows, std::uint64_t cols);
/// A GGUF tensor of rows·cols values, dequantized.
WeightRowsPtr gguf_rows(const TensorView& tensor, std::uint64_t rows, std::uint64_t cols);
/// Matrices that MLX packed: rows of codes, lowest bits first, and w = scale·code + bias for each
/// group of a row (https://ml-explore.github.io/mlx, mlx.core.quantize). Throws Error for wrong
/// shapes and types.
WeightRowsPtr mlx_rows(const SafeTensor& codes, const SafeTensor& scales, const SafeTensor& biases,
                       const MlxPacking& packing, std::uint64_t rows, std::uint64_t cols);
/// OpenAI's MXFP4: codes [rows][cols/32][16], two per byte, low nibble first; scales
/// [rows][cols/32] are exponents of eight bits with bias 127. Throws Error for wrong shapes and
/// types.
WeightRowsPtr fp4_rows(const SafeTensor& codes, const SafeTensor& scales, std::uint64_t rows,
                       std::uint64_t cols);

/// Row i is row source(i) of the concatenated parts, which have equal numbers of columns.
WeightRowsPtr arranged_rows(std::vector<WeightRowsPtr> parts, std::uint64_t rows,
                            std::function<std::uint64_t(std::uint64_t row)> source);
/// Writes the cols() values of a row; thread-safe.
using ReadRow = std::function<void(std::uint64_t row, float* out)>;
WeightRowsPtr computed_rows(std::uint64_t rows, std::uint64_t cols, DType nearest, ReadRow read);
/// The rows, and rows of zeros behind them.
WeightRowsPtr padded_rows(WeightRowsPtr rows, std::uint64_t n);
/// map(x) of each value x.
WeightRowsPtr mapped_rows(WeightRowsPtr rows, std::function<float(float)> map);
/// Row i times factor(i).
WeightRowsPtr scaled_rows(WeightRowsPtr rows, std::function<double(std::uint64_t row)> factor);
/// Column i is column source(i).
WeightRowsPtr arranged_columns(WeightRowsPtr rows,
                               const std::function<std::uint64_t(std::uint64_t column)>& source);

/// Row i of an expert is column step·i + offset of its `of` columns, in the first of its `rows`
/// rows (0: it has no others).
struct ColumnChoice {
  std::uint64_t step = 1, offset = 0, of = 0, rows = 0;
};
/// From floats [experts][cols or choice.rows][choice.of]. Throws Error for other types.
WeightRowsPtr column_rows(const SafeTensor& tensor, std::uint64_t rows, std::uint64_t cols,
                          std::uint64_t rows_of_expert, ColumnChoice choice);

/// Thrown to leave a stream when the caller stops it.
struct Stopped {};

/// Counts bytes for a callback that gets the total so far; if it returns false, add() throws
/// Stopped.
class ByteCount {
 public:
  explicit ByteCount(const std::function<bool(std::uint64_t bytes)>& on_bytes)
      : on_bytes_(on_bytes) {}
  void add(std::uint64_t bytes) {
    if (!on_bytes_(total_ += bytes)) throw Stopped();
  }

 private:
  const std::function<bool(std::uint64_t bytes)>& on_bytes_;
  std::uint64_t total_ = 0;
};

/// The error of a change of form.
struct FormError {
  double squares = 0;     ///< Σ x²
  double difference = 0;  ///< Σ (x - x̂)²
  void add(const FormError& other) {
    squares += other.squares;
    difference += other.difference;
  }
  /// √(Σ (x - x̂)² / Σ x²); 0 without a difference.
  [[nodiscard]] double relative() const;
};

/// A tensor to write in another type.
struct RowJob {
  std::string file, name;  ///< source file and tensor, for errors
  const WeightRows* rows = nullptr;
  DType type = DType::F32;
  bool measure = false;  ///< computes FormError, which needs decoding
};

/// Writes tensors through a few buffers of a MiB. The bytes do not depend on the number of threads.
class RowStream {
 public:
  RowStream(const KernelSet& kernels, unsigned threads);

  using Sink = std::function<void(std::span<const std::byte>)>;
  /// Throws Error naming the tensor if a value is not finite or too large for the type, or the type
  /// has no encoder; and whatever the sink throws.
  FormError write(const RowJob& job, const Sink& sink);

 private:
  struct Piece {
    std::uint64_t first = 0, rows = 0;  ///< in the order of writing
    std::vector<float> values, decoded;
    std::vector<std::byte> bytes;
    std::vector<FormError> errors;  ///< one per row: summed in order
    bool bad = false;
    float worst = 0;  ///< a value that the type cannot hold
  };
  static void encode(const RowJob& job, EncodeFn encoder, Piece& piece);
  static void encode_row(const RowJob& job, EncodeFn encoder, std::uint64_t row, Piece& piece,
                         std::size_t i);

  const KernelSet& kernels_;
  const unsigned threads_;
  std::vector<Piece> pieces_;
};

}  // namespace cria
