// Code for the baseline: the supported instruction sets, the one in use, and the memory that
// kernels need.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "kernels/attention/tiles.h"
#include "kernels/gemm/packed_activations.h"
#include "kernels/gemm/panel.h"
#include "kernels/isa/instruction_set.h"
#include "kernels/matmul/floats.h"
#include "kernels/simd/prefetch.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
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

/// True if the processor has all of x86-64-v4 except vectors; virtual machines may lack some of
/// it.
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

/// True if CRIA_ISA forces another set.
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

namespace {

template <class... Isa>
struct List {
  static constexpr std::size_t kCount = sizeof...(Isa);
  static constexpr InstructionSet kSets[] = {{runs_here<Isa>, kernels_of<Isa>}...};
};
using Compiled = List<CRIA_ISAS>;

/// Keeps the first supported one of several sets with one name: it is the better one.
class Available {
 public:
  Available() noexcept {
    for (const InstructionSet& set : Compiled::kSets) {
      if (set.runs_here()) add(set.kernels());
    }
  }
  [[nodiscard]] std::span<const KernelSet* const> sets() const noexcept {
    return {pointers_, count_};
  }

 private:
  void add(const KernelSet& kernels) noexcept {
    for (const KernelSet* set : sets()) {
      if (set->isa == kernels.isa) return;
    }
    kernels_[count_] = kernels;
    pointers_[count_] = &kernels_[count_];
    ++count_;
  }
  KernelSet kernels_[Compiled::kCount] = {};
  const KernelSet* pointers_[Compiled::kCount] = {};
  std::size_t count_ = 0;
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
  return available.sets();
}

const KernelSet* active_kernels() noexcept {
  static const KernelSet* const active = choose();
  return active;
}

/// (A system that does not tell says zero or less.)
static bool has_small_l1_cache() {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return bytes > 0 && bytes < (48 << 10);
#else
  return false;
#endif
}

const bool kSmallL1Cache = has_small_l1_cache();

std::size_t matmul_scratch_bytes(std::size_t cols) noexcept {
  return std::max({float_matmul_scratch_bytes(cols),
                   sizeof(GemmScratch) + packed_bytes(packed_together(cols), cols),
                   small_tokens_bytes(kMaxSmallTokens, cols),
                   token_tiles_bytes(kTiledTokens, cols)});
}

std::size_t attention_scratch_bytes(std::size_t head_dim, std::size_t value_dim) noexcept {
  return AttentionScratch::bytes(value_dim) +
         std::max(FloatAttentionScratch::bytes(head_dim, value_dim),
                  IntAttentionScratch::bytes(head_dim, value_dim));
}

std::size_t segment_state_floats(std::size_t queries, std::size_t value_dim) noexcept {
  return queries * SegmentStates::floats(value_dim);
}

}  // namespace cria
