// Limits of valid files. Larger numbers are damage or an attack, and are refused before anything is
// allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace cria::limits {

inline constexpr std::uint64_t kKeys = 100'000;
inline constexpr std::uint64_t kTensors = 1'000'000;
inline constexpr std::uint64_t kKeyBytes = 64 << 10;
// Other readers refuse longer ones; here a warning.
inline constexpr std::uint64_t kUsualTensorNameBytes = 63;
inline constexpr std::uint64_t kStringBytes = 64 << 20;
inline constexpr std::uint64_t kArrayElements = 16 << 20;
inline constexpr int kArrayDepth = 8;
inline constexpr std::uint32_t kDimensions = 4;
inline constexpr std::uint64_t kMinAlignment = 8, kMaxAlignment = 1 << 20;
inline constexpr std::uint64_t kLayers = 1024, kHeads = 1024, kEmbedding = 1 << 20,
                               kFeedForward = 1 << 24;
/// Dimensions of recurrent layers' states, and steps of their convolutions.
inline constexpr std::uint64_t kStateSize = 1 << 14, kConvolution = 32;
inline constexpr std::uint64_t kStreams = 16;
inline constexpr std::uint64_t kExperts = 4096, kExpertsOfAllLayers = 1 << 18;
inline constexpr std::uint64_t kVocabulary = 1 << 24, kContext = 1 << 30, kTokenBytes = 64 << 10;

/// a·b and a+b, or nothing where they do not fit.
constexpr std::optional<std::uint64_t> multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}
constexpr std::optional<std::uint64_t> add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

}  // namespace cria::limits
