// Activations in the form that matrix products read: quantized once per product, shared by all
// rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formats/dtype.h"

namespace cria {

enum class ActType : std::uint8_t {
  None,
  F32,     ///< values as they are
  BF16,    ///< rounded to bfloat16
  Q8x16,   ///< int8 with a float scale and an integer sum per 16 values
  Q8x32,   ///< int8 with a float scale and an integer sum per 32 values
  Q8x256,  ///< int8 with a float scale per 256 values and an integer sum per 16
};

inline constexpr std::size_t kActTypes = 6;
/// The forms that KernelSet::quantize makes of values.
inline constexpr ActType kQuantizedForms[] = {ActType::BF16, ActType::Q8x16, ActType::Q8x32,
                                              ActType::Q8x256};

/// The activations that products of a class of types read.
constexpr ActType activations_of(DotClass dot) {
  switch (dot) {
    case DotClass::Float:
      return ActType::F32;
    case DotClass::FloatPairs:
      return ActType::BF16;
    case DotClass::Blocks16:
      return ActType::Q8x16;
    case DotClass::Blocks32:
      return ActType::Q8x32;
    case DotClass::Super256:
      return ActType::Q8x256;
    case DotClass::None:
      break;
  }
  return ActType::None;
}

/// A view of n_tokens rows of cols values; the memory belongs to the caller (engine's arena). Rows
/// of every array start at token*stride of that array. Arrays that a type does not use are null.
struct Activations {
  ActType type = ActType::None;
  std::size_t n_tokens = 0;
  std::size_t cols = 0;        ///< multiple of values_per_d()
  const float* f32 = nullptr;  ///< F32: [n_tokens][f32_stride]
  std::size_t f32_stride = 0;
  /// [n_tokens][q_stride()] bytes, 64-byte aligned. Q8*: int8. BF16: bfloat16, an odd number of
  /// them followed by one zero.
  std::int8_t* q = nullptr;
  float* d = nullptr;           ///< Q8*: [n_tokens][cols / values_per_d()]
  std::int16_t* sum = nullptr;  ///< Q8*: [n_tokens][cols / values_per_sum()]

  /// An odd number of cache lines, so that the same columns of many tokens do not compete for a few
  /// sets of a cache. (Inlined: units of other instruction sets call these too, and the linker
  /// keeps any one copy.)
  [[nodiscard, gnu::always_inline]] inline std::size_t q_stride() const {
    return ((cols * value_bytes() + 63) / 64 | 1) * 64;
  }
  /// Bytes of a value in q.
  [[nodiscard, gnu::always_inline]] inline std::size_t value_bytes() const {
    return type == ActType::BF16 ? 2 : 1;
  }
  /// Values of Q8* that share a scale; that are summed.
  [[nodiscard, gnu::always_inline]] inline std::size_t values_per_d() const {
    return type == ActType::Q8x32 ? 32 : type == ActType::Q8x16 ? 16 : 256;
  }
  [[nodiscard, gnu::always_inline]] inline std::size_t values_per_sum() const {
    return type == ActType::Q8x32 ? 32 : 16;
  }
  // Each divisor is a constant: kernels ask this for every block, and a division would cost more
  // than the block.
  [[nodiscard, gnu::always_inline]] inline std::size_t d_stride() const {
    return type == ActType::Q8x32 ? cols / 32 : type == ActType::Q8x16 ? cols / 16 : cols / 256;
  }
  [[nodiscard, gnu::always_inline]] inline std::size_t sum_stride() const {
    return type == ActType::Q8x32 ? cols / 32 : cols / 16;
  }

  /// Bytes of memory that n_tokens × cols of a type need (0 for F32, which points at the values
  /// themselves).
  static std::size_t bytes(ActType type, std::size_t n_tokens, std::size_t cols);
  /// Lays the arrays out in memory (64-byte aligned, bytes() long).
  static Activations place(ActType type, std::size_t n_tokens, std::size_t cols, std::byte* memory);
};

}  // namespace cria
