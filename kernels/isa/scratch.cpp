// How much work memory the kernels of any instruction set want at most.

#include <algorithm>

#include "kernels/attention/tiles.h"
#include "kernels/gemm/few256_tokens.h"
#include "kernels/gemm/few512_tokens.h"
#include "kernels/gemm/laid_out.h"
#include "kernels/gemm/panel.h"
#include "kernels/gemm/words_tokens.h"
#include "kernels/matmul/floats.h"

namespace cria {

std::size_t matmul_scratch_bytes(std::size_t cols) noexcept {
  return std::max({float_matmul_scratch_bytes(cols),
                   sizeof(GemmScratch) + laid_out_bytes(laid_out_together(cols), cols),
                   few_tokens_bytes(kFewTokens, cols), token_tiles_bytes(kTiledTokens, cols),
                   words_bytes(cols)});
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
