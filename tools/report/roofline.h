// The limits of this machine for a number of threads, measured now: what shares of the roofline refer to.
#pragma once

#include <functional>

#include "kernels/kernels.h"

namespace cria::tools {

/// 0: the kernels have no instruction for it (scalar: none but the read).
struct Roofline {
  double read_gbytes;   ///< streaming read from memory, GB/s, all threads together
  double int8_gmacs;    ///< int8 dot products by vector instructions out of registers, GMAC/s, all threads
  double matrix_gmacs;  ///< the same by a matrix unit (AMX)
  double float_gmacs;   ///< float32 FMA out of registers, GMAC/s, all threads
  double bf16_gmacs;    ///< dot products of bfloat16 pairs

  /// What prompts of a weight type are held against.
  [[nodiscard]] double peak(const DTypeInfo& type) const {
    if (type.dot == DotClass::FloatPairs && bf16_gmacs > 0) return bf16_gmacs;
    return type.is_float() ? float_gmacs : int8_gmacs;
  }
};

/// Work units per second: all threads start together and each does work(thread); the best of some repetitions,
/// as a limit should be. units: of all threads together.
double best_rate(unsigned threads, double units, const std::function<void(unsigned)>& work);

/// Takes about a second. The instructions are those of the kernel set.
Roofline measure_roofline(const KernelSet& kernels, unsigned threads);

}  // namespace cria::tools
