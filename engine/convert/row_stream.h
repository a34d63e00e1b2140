// Converts tensors from one form to another as a stream of pieces, on all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/convert/weight_rows.h"
#include "kernels/kernels.h"

namespace cria {

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
  std::function<std::uint64_t(std::uint64_t row)> source_row =
      nullptr;           ///< order of the rows; null: unchanged
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
