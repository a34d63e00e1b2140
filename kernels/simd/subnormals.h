// The floating-point mode in which products of BF16 weights run: the processors' own instruction for them
// takes subnormal numbers for zero, so every other kernel does.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace cria {

/// While it lives, the calling thread's float instructions read and write zero instead of subnormal numbers.
class SubnormalsAsZero {
 public:
  SubnormalsAsZero() noexcept : saved_(get()) { set(saved_ | kFlush); }
  ~SubnormalsAsZero() { set(saved_); }
  SubnormalsAsZero(const SubnormalsAsZero&) = delete;
  SubnormalsAsZero& operator=(const SubnormalsAsZero&) = delete;

 private:
#if defined(__x86_64__)
  using Mode = unsigned;
  static constexpr Mode kFlush = 0x8040;  // FTZ and DAZ of MXCSR
  static Mode get() noexcept { return _mm_getcsr(); }
  static void set(Mode mode) noexcept { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Mode = std::uint64_t;
  static constexpr Mode kFlush = 1U << 24;  // FZ of FPCR
  static Mode get() noexcept {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set(Mode mode) noexcept { asm volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
#else
  using Mode = unsigned;
  static constexpr Mode kFlush = 0;
  static Mode get() noexcept { return 0; }
  static void set(Mode) noexcept {}
#endif
  Mode saved_;
};

}  // namespace cria
