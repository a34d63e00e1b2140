// The limits of this machine for a number of threads, measured now: what shares of the roofline
// refer to.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "kernels/kernels.h"
#include "model/gguf/gguf.h"

namespace cria::tools {

/// 0: the kernels have no instruction for it (scalar: none but the read).
struct Roofline {
  double read_gbytes;   ///< streaming read from memory, GB/s, all threads together
  double int8_gmacs;    ///< int8 dot products by vector instructions out of registers, GMAC/s, all
                        ///< threads
  double matrix_gmacs;  ///< the same by a matrix unit (AMX)
  double float_gmacs;   ///< float32 FMA out of registers, GMAC/s, all threads
  double bf16_gmacs;    ///< dot products of bfloat16 pairs

  /// What prompts of a weight type are held against.
  [[nodiscard]] double peak(const DTypeInfo& type) const {
    if (type.dot == DotClass::FloatPairs && bf16_gmacs > 0) return bf16_gmacs;
    return type.is_float() ? float_gmacs : int8_gmacs;
  }
};

/// Work units per second: all threads start together and each does work(thread); the best of some
/// repetitions, as a limit should be. units: of all threads together.
double best_rate(unsigned threads, double units, const std::function<void(unsigned)>& work);

/// What of a model's tensors measure_roofline() can read: those that follow one another in memory,
/// 512 MiB at most. Empty if that is too little to be out of the caches.
std::span<const std::byte> readable_weights(const GgufFile& file);

/// How fast all threads together read these bytes, the best of some repetitions; if empty, 512 MiB
/// of memory of its own.
double read_gbytes(const KernelSet& kernels, unsigned threads, std::span<const std::byte> bytes);

/// Takes about a second. The instructions are those of the kernel set. weights: as bytes above,
/// since memory is not equally fast everywhere.
Roofline measure_roofline(const KernelSet& kernels, unsigned threads,
                          std::span<const std::byte> weights = {});

}  // namespace cria::tools
