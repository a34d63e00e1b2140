// How much work memory the kernels of any instruction set want at most.

#include "kernels/attention_impl.h"
#include "kernels/matmul_float.h"

namespace cria {

std::size_t matmul_scratch_bytes(std::size_t cols) noexcept { return float_matmul_scratch_bytes(cols); }

std::size_t attention_scratch_bytes(std::size_t /*n_heads*/, std::size_t /*n_kv_heads*/, std::size_t head_dim,
                                    std::size_t value_dim) noexcept {
  return AttentionScratch::floats(head_dim, value_dim) * sizeof(float);
}

}  // namespace cria
