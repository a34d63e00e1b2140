// What every way of the float products has of a job: its tokens and where results go.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace cria {

/// (Inlined: units of several instruction sets have it, and the linker keeps any one copy.)
class FloatJob {
 protected:
  [[gnu::always_inline]] explicit FloatJob(const MatMulJob& job) : job_(job) {}
  [[nodiscard, gnu::always_inline]] const float* token(std::size_t t) const {
    return job_.x->f32 + t * job_.x->f32_stride;
  }
  [[gnu::always_inline]] void put(std::size_t row, std::size_t t, float sum) const {
    const std::size_t at = t * job_.out_stride + row;
    job_.out[at] = job_.residual == nullptr ? sum : job_.residual[at] + sum;
  }
  const MatMulJob& job_;
};

}  // namespace cria
