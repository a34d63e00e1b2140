// The scalar kernels: baseline flags, plain C++; they define the bits.
#include "kernels/kernels.h"

#include <cstring>

#include "kernels/isa/make_kernels.h"

namespace cria {
namespace {

void read_words(const std::byte* bytes, std::size_t n) {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < n; i += sizeof all) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, sizeof word);
    all ^= word;
  }
  asm volatile("" : : "r"(all));
}

}  // namespace

template <>
KernelSet kernels_of<ScalarIsa>() noexcept {
  KernelSet set = make_kernels<ScalarIsa>(scalar_matmul);
  set.read_peak = read_words;
  return set;
}

}  // namespace cria
