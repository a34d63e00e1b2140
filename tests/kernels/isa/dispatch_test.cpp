// Dispatch: the best set of the machine, or the set named by CRIA_ISA.
#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdlib>
#include <set>

#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

// Each runs in a process of its own, since the choice is made once.
int exit_code_of_choice(const char* isa, std::string_view expected) {
  isa == nullptr ? unsetenv("CRIA_ISA") : setenv("CRIA_ISA", isa, 1);
  const KernelSet* chosen = active_kernels();
  return chosen != nullptr && chosen->isa == expected ? 0 : 1;
}

TEST(DispatchDeathTest, RunsTheForcedIsa) {
  for (const KernelSet* set : available_kernels()) {
    const std::string isa(set->isa);
    EXPECT_EXIT(std::exit(exit_code_of_choice(isa.c_str(), isa)), testing::ExitedWithCode(0), "")
        << isa;
  }
}

TEST(DispatchDeathTest, UnforcedIsTheBest) {
  const std::string best(available_kernels().front()->isa);
  EXPECT_EXIT(std::exit(exit_code_of_choice(nullptr, best)), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(exit_code_of_choice("", best)), testing::ExitedWithCode(0), "");
}

TEST(DispatchDeathTest, RejectsUnknownIsas) {
  EXPECT_EXIT(std::exit((setenv("CRIA_ISA", "mmx", 1), active_kernels() == nullptr) ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

#if defined(__x86_64__)
/// Linux grants a process tiles for good, and small stacks for signals are refused from then on.
TEST(DispatchDeathTest, RequestsTilesOnlyForAmx) {
  testing::GTEST_FLAG(death_test_style) =
      "threadsafe";  // in a process that has not asked for any set yet
  const auto tiles_granted = [] {
    constexpr int kGetPermission = 0x1022, kTileData = 18;  // arch_prctl(ARCH_GET_XCOMP_PERM, …)
    std::uint64_t granted = 0;
    setenv("CRIA_ISA", "scalar", 1);
    (void)active_kernels();
    return syscall(SYS_arch_prctl, kGetPermission, &granted) == 0 &&
           (granted >> kTileData & 1) != 0;
  };
  EXPECT_EXIT(std::exit(tiles_granted() ? 1 : 0), testing::ExitedWithCode(0), "");
}
#endif

TEST(Dispatch, EverySetHasCodeOfItsOwn) {
  std::set<std::string_view> names;
  std::set<decltype(KernelSet::attention)> attention;
  std::set<MatMulFn> f16, q4_k;
  std::set<EncodeFn> encoders;
  // AVX-512 or AVX2 apart from integer products.
  const std::set<std::string_view> products_only = {"amx", "avx512intel", "avxvnni"};
  std::size_t others = 0;
  for (const KernelSet* set : available_kernels()) {
    names.insert(set->isa);
    q4_k.insert(set->matmul(DType::Q4_K).run);
    if (products_only.contains(set->isa)) continue;
    ++others;
    attention.insert(set->attention);
    if (set->isa != "avx512vnni") encoders.insert(set->encode(DType::Q4_K));  // it has AVX2's
    f16.insert(set->matmul(DType::F16).run);
  }
  EXPECT_EQ(names.size(), available_kernels().size());
  EXPECT_EQ(q4_k.size(), names.size());
  EXPECT_EQ(attention.size(), others);
  EXPECT_EQ(f16.size(), attention.size());
  EXPECT_EQ(encoders.size(), attention.size() - names.count("avx512vnni"));
  EXPECT_EQ(available_kernels().back()->isa, "scalar");
}

}  // namespace
}  // namespace cria
