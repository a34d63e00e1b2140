// Which instruction sets this machine can run, and the one in use.

#include <cstdlib>

#include "kernels/isa_sets.h"
#if defined(CRIA_HAS_AVX2)
#include <cpuid.h>
#endif
#if defined(CRIA_HAS_AMX)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(CRIA_HAS_NEON)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace cria {
namespace {

#if defined(CRIA_HAS_AVX2)
// The compiler's test asks CPUID for the instructions and XGETBV whether the system saves their registers;
// F16C is not among the names that Clang knows.
bool has_avx2() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

#if defined(CRIA_HAS_AVX512)
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512vbmi");
}
#endif

#if defined(CRIA_HAS_AVX512)
bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
#endif

#if defined(CRIA_HAS_AMX)
/// Tiles are large registers that Linux grants a process only on demand, to all of its threads.
bool has_amx() {
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24, kInt8 = 1U << 25;  // CPUID 7.0 EDX
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM, …)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!has_avx512bf16() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & (kBf16 | kTile | kInt8)) != (kBf16 | kTile | kInt8)) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

#if defined(CRIA_HAS_NEON)
bool has_neon_dot() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#endif

struct Available {
  const KernelSet* sets[5] = {};
  std::size_t count = 0;
#if defined(CRIA_HAS_AMX)
  KernelSet amx;
#endif
#if defined(CRIA_HAS_AVX512)
  KernelSet avx512 = kAvx512Kernels;
#endif

  Available() noexcept {
#if defined(CRIA_HAS_AVX512)
    if (has_avx512bf16()) {
      avx512.matmul = avx512bf16_matmul;
      avx512.bf16_peak = avx512bf16_peak;
    }
#endif
#if defined(CRIA_HAS_AMX)
    if (has_amx()) {
      amx = avx512;
      amx.isa = "amx";
      amx.matmul = amx_matmul;
      amx.matrix_peak = amx_peak;
      add(amx);
    }
#endif
#if defined(CRIA_HAS_AVX512)
    if (has_avx512()) add(avx512);
#endif
#if defined(CRIA_HAS_AVX2)
    if (has_avx2()) add(kAvx2Kernels);
#endif
#if defined(CRIA_HAS_NEON)
    if (has_neon_dot()) add(kNeonKernels);
#endif
    add(kScalarKernels);
  }
  void add(const KernelSet& set) noexcept { sets[count++] = &set; }
};

const KernelSet* choose() noexcept {
  const auto sets = available_kernels();
  const char* forced = std::getenv("CRIA_ISA");
  if (forced == nullptr || *forced == '\0') return sets.front();
  for (const KernelSet* set : sets) {
    if (set->isa == forced) return set;
  }
  return nullptr;
}

}  // namespace

std::span<const KernelSet* const> available_kernels() noexcept {
  static const Available available;
  return {available.sets, available.count};
}

const KernelSet* active_kernels() noexcept {
  static const KernelSet* const active = choose();
  return active;
}

}  // namespace cria
