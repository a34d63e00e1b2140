// Tensors from one form into another as a stream of pieces, on all threads.
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

/// What a change of form cost.
struct FormError {
  double squares = 0;     ///< Σ x²
  double difference = 0;  ///< Σ (x - x̂)²
  void add(const FormError& other) {
    squares += other.squares;
    difference += other.difference;
  }
  /// √(Σ (x - x̂)² / Σ x²); 0 where there is no difference.
  [[nodiscard]] double relative() const;
};

/// A tensor to be written: its rows in the order that source_row gives, in another type.
struct RowJob {
  std::string file, name;  ///< of the source, and the tensor's: for errors
  const WeightRows* rows = nullptr;
  DType type = DType::F32;
  std::function<std::uint64_t(std::uint64_t row)> source_row = nullptr;  ///< null: as they stand
  bool measure = false;  ///< computes FormError, which costs decoding
};

/// Writes tensors through a few buffers of a MiB. The bytes do not depend on the number of threads.
class RowStream {
 public:
  RowStream(const KernelSet& kernels, unsigned threads);

  using Sink = std::function<void(std::span<const std::byte>)>;
  /// Throws Error naming the tensor where a value is not finite or does not fit into the type, or
  /// there is no encoder for it; and whatever the sink throws.
  FormError write(const RowJob& job, const Sink& sink);

 private:
  struct Piece {
    std::uint64_t first = 0, rows = 0;  ///< of those that are written
    std::vector<float> values, decoded;
    std::vector<std::byte> bytes;
    std::vector<FormError> errors;  ///< of its rows: added in their order
    bool bad = false;
    float worst = 0;  ///< a value that does not fit
  };
  static void encode(const RowJob& job, EncodeFn encoder, Piece& piece);
  static void encode_row(const RowJob& job, EncodeFn encoder, std::uint64_t row, Piece& piece,
                         std::size_t i);

  const KernelSet& kernels_;
  const unsigned threads_;
  std::vector<Piece> pieces_;
};

}  // namespace cria
