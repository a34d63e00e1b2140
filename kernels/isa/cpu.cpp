// Which instruction sets this machine and its operating system can run.
#include <cstdlib>
#include <string_view>

#include "kernels/isa/instruction_set.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace cria {

template <>
bool runs_here<ScalarIsa>() noexcept {
  return true;
}

#if defined(__x86_64__)
/// The compiler's test asks CPUID for the instructions and XGETBV whether the system saves their
/// registers; F16C is not among the names that Clang knows.
template <>
bool runs_here<Avx2>() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

/// (A name that Clang 14 does not know either.)
template <>
bool runs_here<AvxVnni>() noexcept {
  constexpr unsigned kAvxVnni = 1U << 4;  // CPUID 7.1 EAX
  unsigned a = 0, b = 0, c = 0, d = 0;
  return runs_here<Avx2>() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
}

/// Whether the compiler may use all that x86-64-v4 has beside vectors; a virtual machine may lack
/// some of it.
static bool has_bit_instructions() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_MOVBE) != 0 &&
         __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

template <>
bool runs_here<Avx512>() noexcept {
  return runs_here<Avx2>() && has_bit_instructions() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi") &&
         __builtin_cpu_supports("avx512bitalg");
}

template <>
bool runs_here<Avx512Bf16>() noexcept {
  return runs_here<Avx512>() && __builtin_cpu_supports("avx512bf16");
}

template <>
bool runs_here<Avx512Intel>() noexcept {
  return runs_here<Avx512>();
}
template <>
bool runs_here<Avx512OnIntel>() noexcept {
  return __builtin_cpu_is("intel") && runs_here<Avx512>();
}

/// Whether CRIA_ISA forces another set.
static bool others_alone(std::string_view isa) noexcept {
  const char* const forced = std::getenv("CRIA_ISA");
  return forced != nullptr && *forced != '\0' && forced != isa;
}

/// Tiles are large registers that Linux grants a process only on demand, to all of its threads and
/// for good. Small stacks for signals are refused from then on: so they are demanded by those alone
/// who may use them.
template <>
bool runs_here<Amx>() noexcept {
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24, kInt8 = 1U << 25;  // CPUID 7.0 EDX
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM, …)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!runs_here<Avx512Bf16>() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & (kBf16 | kTile | kInt8)) != (kBf16 | kTile | kInt8) || others_alone("amx")) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#elif defined(__aarch64__)
template <>
bool runs_here<Neon>() noexcept {
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
#endif

}  // namespace cria
