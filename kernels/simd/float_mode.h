// The mode in which a thread computes with floats: rounding, and what becomes of subnormal numbers.
#pragma once

#include <cstdint>
#include "kernels/simd/namespace.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Sets the calling thread's float mode; restores the previous one on destruction. Base class of
/// the modes.
class FloatModeScope {
 public:
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;

 protected:
#if defined(__x86_64__)
  using Mode = unsigned;
  static constexpr Mode kDefault = 0x1F80;           // MXCSR: to nearest even, no exception traps
  static constexpr Mode kSubnormalsAsZero = 0x8040;  // its FTZ and DAZ
  static Mode get() noexcept { return _mm_getcsr(); }
  static void set(Mode mode) noexcept { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Mode = std::uint64_t;
  static constexpr Mode kDefault = 0;                  // FPCR: to nearest even, no exception traps
  static constexpr Mode kSubnormalsAsZero = 1U << 24;  // its FZ
  static Mode get() noexcept {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set(Mode mode) noexcept { asm volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
#else
  using Mode = unsigned;
  static constexpr Mode kDefault = 0;
  static constexpr Mode kSubnormalsAsZero = 0;
  static Mode get() noexcept { return 0; }
  static void set(Mode) noexcept {}
#endif

  explicit FloatModeScope(Mode mode) noexcept : saved_(get()) { set(mode); }
  ~FloatModeScope() { set(saved_); }

 private:
  Mode saved_;
};

/// The mode that the numerics of kernels/README.md mean, whatever a program has set: rounding to
/// nearest even, subnormal numbers kept, no traps.
class DefaultFloatMode : FloatModeScope {
 public:
  DefaultFloatMode() noexcept : FloatModeScope(kDefault) {}
};

// The floating-point mode in which products of BF16 weights run: the processors' own instruction
// for them takes subnormal numbers for zero, so every other kernel does.

/// While it lives, the calling thread's float instructions read and write zero instead of subnormal
/// numbers.
class SubnormalsAsZero : FloatModeScope {
 public:
  SubnormalsAsZero() noexcept : FloatModeScope(get() | kSubnormalsAsZero) {}
};

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
