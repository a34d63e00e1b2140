// The selective scan of Mamba-1: a state per channel whose decays differ in every dimension, so
// that it is computed row by row. Numerics: kernels/README.md.
#pragma once

#include <cstddef>

#include "kernels/recurrent/recurrent.h"
#include "kernels/rows/row_ops.h"
#include "kernels/simd/namespace.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// Row t for the n <= 16 channels from `first`. Lanes are dimensions of a state, then channels.
template <class Isa>
void scan_row(const ScanJob& job, std::size_t t, std::size_t first, std::size_t n) {
  using V = F32x16<Isa>;
  const ScanShape& shape = job.shape;
  const std::size_t dim = shape.state_dim, pos = job.first_pos + t;
  const auto slot = [&](std::size_t at) {
    return job.memory + at % shape.slots() * shape.snapshot_floats();
  };
  const float *const x = job.x + t * job.x_stride, *const dt = job.dt + t * job.dt_stride,
                     *const b = job.b + t * job.b_stride, *const c = job.c + t * job.c_stride;
  V sums[kFloatLanes];
  for (std::size_t i = 0; i < kFloatLanes; ++i) sums[i] = V::broadcast(0);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t channel = first + i, at = channel * dim;
    const float *const a = job.a + at, *const from = slot(pos) + at;
    float* const to = slot(pos + 1) + at;
    const V step = V::broadcast(dt[channel]), input = V::broadcast(dt[channel] * x[channel]);
    for_each_group(dim, [&](std::size_t d, std::size_t lanes) {
      V state = pos == 0 ? V::broadcast(0) : load_group<Isa>(from + d, lanes);
      state = fma(exp(step * load_group<Isa>(a + d, lanes)), state,
                  input * load_group<Isa>(b + d, lanes));
      store_group(state, to + d, lanes);
      // (If the step is infinite, lanes after the end are NaN.)
      sums[i] = fma(lanes == kFloatLanes ? state : load_group<Isa>(to + d, lanes),
                    load_group<Isa>(c + d, lanes), sums[i]);
    });
  }
  V y = V::sums([&](int i) { return sums[i]; });
  if (job.skip != nullptr)
    y = fma(load_group<Isa>(job.skip + first, n), load_group<Isa>(x + first, n), y);
  store_group(y, job.out + t * job.out_stride + first, n);
}

/// KernelSet::selective_scan.
template <class Isa>
void selective_scan(const ScanJob& job, std::size_t channel_begin, std::size_t channel_end) {
  for (std::size_t c = channel_begin; c < channel_end; c += kFloatLanes)
    for (std::size_t t = 0; t < job.n_rows; ++t)
      scan_row<Isa>(job, t, c, channel_end - c < kFloatLanes ? channel_end - c : kFloatLanes);
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
