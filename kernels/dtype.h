// The dtype table: the only place that knows which tensor types exist and what a block of each holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cria {

/// GGUF tensor type ids (the numbers are the file format's).
// clang-format off
enum class DType : std::uint32_t {
  F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q8_1 = 9,
  Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, Q8_K = 15,
  IQ2_XXS = 16, IQ2_XS = 17, IQ3_XXS = 18, IQ1_S = 19, IQ4_NL = 20, IQ3_S = 21, IQ2_S = 22, IQ4_XS = 23,
  I8 = 24, I16 = 25, I32 = 26, I64 = 27, F64 = 28, IQ1_M = 29, BF16 = 30, TQ1_0 = 34, TQ2_0 = 35,
};
// clang-format on

/// How a matrix product reads a type (kernels/README.md).
enum class DotClass : std::uint8_t {
  None,        ///< not usable as a weight matrix (I8…I64, F64, Q8_1, Q8_K)
  Float,       ///< F32, F16
  FloatPairs,  ///< BF16
  Blocks32,    ///< one float scale per 32 values
  Super256,    ///< integer sub-scales, one float scale per 256 values
};

/// One row of the dtype table.
struct DTypeInfo {
  std::string_view name;  ///< as users write it: "Q4_K"
  DType id;
  std::uint32_t block_values;  ///< values per block
  std::uint32_t block_bytes;   ///< bytes per block
  DotClass dot;
  /// n_values (a multiple of block_values) from blocks (any alignment) to out. Never null.
  void (*dequantize)(const std::byte* blocks, float* out, std::size_t n_values);

  /// F32, F16, BF16.
  [[nodiscard]] constexpr bool is_float() const {
    return dot == DotClass::Float || dot == DotClass::FloatPairs;
  }
  /// Bytes of n values; n must be a multiple of block_values.
  [[nodiscard]] constexpr std::size_t bytes(std::size_t n) const { return n / block_values * block_bytes; }
};

/// The row of a GGUF type id, or null when no such type exists (removed ids 4, 5, 31–33, 36–38 included).
const DTypeInfo* find_dtype(std::uint32_t gguf_id) noexcept;
/// The row of a type named as in GGUF tools ("q4_k" and "Q4_K" alike), or null.
const DTypeInfo* find_dtype(std::string_view name) noexcept;
/// The row of a known type.
const DTypeInfo& dtype_info(DType type) noexcept;
inline std::string_view name(DType type) noexcept { return dtype_info(type).name; }

}  // namespace cria
