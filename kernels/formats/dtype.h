// The dtype table: the only place that knows all tensor types. The block of each type is defined in
// the file of its family (formats.h includes them all). Tables and switches by type follow from the
// list below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace cria {

/// The types: name and GGUF type id (the numbers are the file format's). A type that is added here
/// does not compile before it has a Format, lanes, and an encoder: CONTRIBUTING.md, "A new tensor
/// type".
// clang-format off
#define CRIA_DTYPES(X)                                                                                    \
  X(F32, 0)      X(F16, 1)     X(Q4_0, 2)     X(Q4_1, 3)   X(Q5_0, 6)    X(Q5_1, 7)   X(Q8_0, 8)   X(Q8_1, 9) \
  X(Q2_K, 10)    X(Q3_K, 11)   X(Q4_K, 12)    X(Q5_K, 13)  X(Q6_K, 14)   X(Q8_K, 15)                       \
  X(IQ2_XXS, 16) X(IQ2_XS, 17) X(IQ3_XXS, 18) X(IQ1_S, 19) X(IQ4_NL, 20) X(IQ3_S, 21) X(IQ2_S, 22)         \
  X(IQ4_XS, 23)  X(I8, 24)     X(I16, 25)     X(I32, 26)   X(I64, 27)    X(F64, 28)   X(IQ1_M, 29)         \
  X(BF16, 30)    X(TQ1_0, 34)  X(TQ2_0, 35)   X(MXFP4, 39) X(NVFP4, 40)  X(Q1_0, 41)  X(Q6_0, 133)               \
  X(IQ1_BN, 134) X(IQ2_BN, 135)                                                                            \
  X(IQ2_K, 137)  X(IQ3_K, 138) X(IQ4_K, 139)  X(IQ5_K, 140) X(IQ6_K, 141) X(IQ4_KS, 144) X(IQ2_KS, 145)     \
  X(IQ4_KSS, 146) X(IQ5_KS, 152) X(IQ2_KT, 153) X(IQ3_KT, 154) X(IQ4_KT, 155) X(IQ3_KS, 156)               \
  X(IQ2_KL, 157) X(IQ1_KT, 158) X(Q8_0_R8, 208) X(Q4_K_R4, 212) X(Q5_K_R4, 213) X(Q6_K_R4, 214)            \
  X(IQ1_S_R4, 219) X(IQ1_M_R4, 229) X(IQ2_K_R4, 337) X(IQ3_K_R4, 338) X(IQ4_K_R4, 339) X(IQ5_K_R4, 340)    \
  X(IQ4_KS_R4, 344) X(IQ5_KS_R4, 352) X(IQ1_M_R1, 1029)
// clang-format on

/// The types of the list that are put in order when they are loaded (interleaved.h): name, plain
/// type, rows of a unit.
// clang-format off
#define CRIA_INTERLEAVED_TYPES(X)                                                             \
  X(Q8_0_R8, Q8_0, 8)    X(Q4_K_R4, Q4_K, 4)   X(Q5_K_R4, Q5_K, 4)            \
  X(Q6_K_R4, Q6_K, 4)    X(IQ2_K_R4, IQ2_K, 4) X(IQ3_K_R4, IQ3_K, 4)          \
  X(IQ4_K_R4, IQ4_K, 4)  X(IQ5_K_R4, IQ5_K, 4) X(IQ4_KS_R4, IQ4_KS, 4)        \
  X(IQ5_KS_R4, IQ5_KS, 4) X(IQ1_S_R4, IQ1_S, 4) X(IQ1_M_R4, IQ1_M_R1, 4)      \
  X(IQ1_BN, IQ2_BN, 1)
// clang-format on

enum class DType : std::uint32_t {
#define CRIA_ENUMERATOR(name, id) name = id,  // NOLINT(bugprone-macro-parentheses): a name
  CRIA_DTYPES(CRIA_ENUMERATOR)
#undef CRIA_ENUMERATOR
};

/// Calls f(std::integral_constant<DType, type>) for a type of the list and returns what it returns:
/// how code that is written per type finds it at run time. For any other number: a
/// value-initialised result.
template <class F>
constexpr auto with_dtype(DType type, F f) {
  switch (type) {
#define CRIA_CASE(name, id) \
  case DType::name:         \
    return f(std::integral_constant<DType, DType::name>{});
    CRIA_DTYPES(CRIA_CASE)
#undef CRIA_CASE
  }
  return decltype(f(std::integral_constant<DType, DType::F32>{})){};
}

/// Kind of matrix product of a type (kernels/README.md).
enum class DotClass : std::uint8_t {
  None,        ///< not usable as a weight matrix (I8…I64, F64, Q8_1, Q8_K)
  Float,       ///< F32, F16
  FloatPairs,  ///< BF16
  Blocks16,    ///< one float scale per 16 values
  Blocks32,    ///< one float scale per 32 values
  Super256,    ///< integer sub-scales, one float scale per 256 values
};

/// Integers in blocks, multiplied by quantized activations.
constexpr bool is_integer(DotClass dot) {
  return dot == DotClass::Blocks16 || dot == DotClass::Blocks32 || dot == DotClass::Super256;
}

/// One row of the dtype table.
struct DTypeInfo {
  std::string_view name;  ///< as users write it: "Q4_K"
  DType id;
  std::uint32_t block_values;  ///< values per block
  std::uint32_t block_bytes;   ///< bytes per block
  std::uint32_t header_bytes;  ///< header of a row, before its blocks; usually 0
  DotClass dot;
  /// A row of n_values (a multiple of block_values; any alignment) to out. Never null. Where rows
  /// have no header, several that follow one another may pass for one: dequantize_rows() is for all
  /// types.
  void (*dequantize)(const std::byte* row, float* out, std::size_t n_values);
  DType plain = id;                    ///< another if the type is interleaved (interleaved.h)
  std::uint32_t interleaved_rows = 1;  ///< rows of a unit, which counts as a row in dequantize
  /// Writes the rows of a unit as rows of the plain type, which may take more bytes. Null for types
  /// that are not interleaved. cols: a multiple of block_values.
  void (*deinterleave)(const std::byte* unit, std::size_t cols, std::byte* rows) = nullptr;

  /// F32, F16, BF16.
  [[nodiscard]] constexpr bool is_float() const {
    return dot == DotClass::Float || dot == DotClass::FloatPairs;
  }
  /// Bytes of a row of n values; n must be a multiple of block_values.
  [[nodiscard]] constexpr std::size_t row_bytes(std::size_t n) const {
    return header_bytes + n / block_values * block_bytes;
  }
  /// n_rows rows that follow one another: a multiple of interleaved_rows.
  void dequantize_rows(const std::byte* rows, float* out, std::size_t n_rows,
                       std::size_t cols) const {
    for (std::size_t r = 0; r < n_rows; r += interleaved_rows)
      dequantize(rows + r * row_bytes(cols), out + r * cols, cols * interleaved_rows);
  }
};

/// The row of a GGUF type id, or null when no such type exists (removed ids 4, 5, 31–33, 36–38
/// included).
const DTypeInfo* find_dtype(std::uint32_t gguf_id) noexcept;
/// The row of a type named as in GGUF tools, in either case ("q4_k", "Q4_K"), or null.
const DTypeInfo* find_dtype(std::string_view name) noexcept;
/// The row of a known type.
const DTypeInfo& dtype_info(DType type) noexcept;
inline std::string_view name(DType type) noexcept { return dtype_info(type).name; }

}  // namespace cria
