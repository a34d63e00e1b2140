// Which kernels run: the best of the machine, or the set that CRIA_ISA names.
#include <cstdlib>
#include <set>

#include "kernel_test.h"

namespace cria {
namespace {

// Each runs in a process of its own, since the choice is made once.
int exit_code_of_choice(const char* isa, std::string_view expected) {
  isa == nullptr ? unsetenv("CRIA_ISA") : setenv("CRIA_ISA", isa, 1);
  const KernelSet* chosen = active_kernels();
  return chosen != nullptr && chosen->isa == expected ? 0 : 1;
}

TEST(DispatchDeathTest, ForcedIsaIsTheOneThatRuns) {
  for (const KernelSet* set : available_kernels()) {
    const std::string isa(set->isa);
    EXPECT_EXIT(std::exit(exit_code_of_choice(isa.c_str(), isa)), testing::ExitedWithCode(0), "") << isa;
  }
}

TEST(DispatchDeathTest, UnforcedIsTheBest) {
  const std::string best(available_kernels().front()->isa);
  EXPECT_EXIT(std::exit(exit_code_of_choice(nullptr, best)), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(exit_code_of_choice("", best)), testing::ExitedWithCode(0), "");
}

TEST(DispatchDeathTest, UnknownIsaIsNone) {
  EXPECT_EXIT(std::exit((setenv("CRIA_ISA", "mmx", 1), active_kernels() == nullptr) ? 0 : 1),
              testing::ExitedWithCode(0), "");
}

TEST(Dispatch, EverySetHasCodeOfItsOwn) {
  std::set<std::string_view> names;
  std::set<decltype(KernelSet::attention)> attention;
  std::set<decltype(KernelSet::rms_norm)> rms_norm;
  std::set<MatMulFn> f16;
  for (const KernelSet* set : available_kernels()) {
    if (set->isa == "amx") continue;  // avx512vnni but for its integer products
    names.insert(set->isa);
    attention.insert(set->attention);
    rms_norm.insert(set->rms_norm);
    f16.insert(set->matmul(DType::F16).run);
  }
  EXPECT_GE(names.size() + 1, available_kernels().size());
  EXPECT_EQ(attention.size(), names.size());
  EXPECT_EQ(rms_norm.size(), names.size());
  EXPECT_EQ(f16.size(), names.size());
  EXPECT_EQ(available_kernels().back()->isa, "scalar");
}

TEST(Dispatch, AmxHasItsOwnIntegerProducts) {
  const auto sets = available_kernels();
  if (sets.front()->isa != "amx") GTEST_SKIP() << "this machine has no AMX";
  EXPECT_EQ(sets[1]->isa, "avx512vnni");
  EXPECT_NE(sets[0]->matmul(DType::Q4_K).run, sets[1]->matmul(DType::Q4_K).run);
  EXPECT_EQ(sets[0]->matmul(DType::F16).run, sets[1]->matmul(DType::F16).run);
}

}  // namespace
}  // namespace cria
