#include "kernels/rows/activations.h"
#include "kernels/simd/round.h"

#include <cassert>

namespace cria {
namespace {

constexpr std::size_t kAlignment = 64;

constexpr std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }

// The arrays of place(), contiguous, each part aligned.
struct PartBytes {
  std::size_t q = 0, d = 0, sum = 0;

  PartBytes(const Activations& acts) {
    if (acts.type == ActType::None || acts.type == ActType::F32) return;
    q = aligned(acts.n_tokens * acts.q_stride());
    if (acts.type == ActType::BF16) return;
    d = aligned(acts.n_tokens * acts.d_stride() * sizeof(float));
    sum = aligned(acts.n_tokens * acts.sum_stride() * sizeof(std::int16_t));
  }
  [[nodiscard]] std::size_t total() const { return q + d + sum; }
};

Activations shape(ActType type, std::size_t n_tokens, std::size_t cols) {
  Activations acts;
  acts.type = type;
  acts.n_tokens = n_tokens;
  acts.cols = cols;
  assert(type == ActType::None || type == ActType::F32 || type == ActType::BF16 ||
         cols % acts.values_per_d() == 0);
  return acts;
}

}  // namespace

std::size_t Activations::bytes(ActType type, std::size_t n_tokens, std::size_t cols) {
  return PartBytes(shape(type, n_tokens, cols)).total();
}

Activations Activations::place(ActType type, std::size_t n_tokens, std::size_t cols,
                               std::byte* memory) {
  Activations acts = shape(type, n_tokens, cols);
  const PartBytes part(acts);
  if (part.total() == 0) return acts;
  acts.q = reinterpret_cast<std::int8_t*>(memory);
  if (type == ActType::BF16) return acts;
  acts.d = reinterpret_cast<float*>(memory + part.q);
  acts.sum = reinterpret_cast<std::int16_t*>(memory + part.q + part.d);
  return acts;
}

}  // namespace cria
