// Which kernels this machine can run, and the ones in use.
#include <cstdlib>

#include "kernels/isa/instruction_set.h"

namespace cria {
namespace {

template <class... Isa>
struct List {
  static constexpr std::size_t kCount = sizeof...(Isa);
  static constexpr InstructionSet kSets[] = {{runs_here<Isa>, kernels_of<Isa>}...};
};
using Compiled = List<CRIA_ISAS>;

/// Of sets with one name, only the first that runs: the better one.
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

}  // namespace cria
