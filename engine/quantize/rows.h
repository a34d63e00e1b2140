// Encodes and decodes rows of weights in memory, on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "model/gguf/gguf.h"

namespace cria {

/// Encodes one row of finite values. importance: null, or a weight for each value; without one
/// above 0 it counts as none. `weights` is scratch.
void encode_row(const KernelSet& kernels, DType type, std::span<const float> values,
                const float* importance, std::vector<float>& weights, std::byte* row);

/// The largest magnitude of the values. Infinite if one of them is infinite or NaN.
float largest_magnitude(std::span<const float> values);

/// Throws Error naming the tensor if its largest magnitude is infinite or too large for the type.
void require_encodable(const GgufFile& file, const TensorView& tensor, DType type, float largest);

/// Encodes values, rows of `cols`, as quantize() does: the bytes do not depend on `threads` (0:
/// usable_cores()). importance: empty, or a weight for each column. out: [rows][row_bytes]. Throws
/// Error for NaN, infinity, values too large for the type, and a type without an encoder.
void encode_rows(DType type, std::span<const float> values, std::size_t cols,
                 std::span<const float> importance, unsigned threads, std::byte* out);
/// Decodes n_rows rows to out, [n_rows][cols].
void decode_rows(DType type, const std::byte* rows, std::size_t n_rows, std::size_t cols,
                 unsigned threads, float* out);

}  // namespace cria
