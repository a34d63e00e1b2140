// The queries of one call of attention, the state of a query after a segment of keys, and how
// states are merged. Numerics: kernels/README.md.
#pragma once

#include <cstddef>

#include "kernels/attention/attention.h"
#include "kernels/rows/row_ops.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/round.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

// The queries of one call of attention: which token and head each is of, and where it and its
// output lie.

/// Query i is head i % group of token token_begin + i / group.
class CallQueries {
 public:
  CallQueries(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin)
      : job_(job),
        group_(job.n_heads / job.n_kv_heads),
        kv_head_(kv_head),
        token_begin_(token_begin) {}

  [[nodiscard]] std::size_t head(std::size_t query) const {
    return kv_head_ * group_ + query % group_;
  }
  [[nodiscard]] std::size_t position(std::size_t query) const {
    return job_.first_pos + token(query);
  }
  [[nodiscard]] const float* row(std::size_t query) const {
    return job_.q + token(query) * job_.q_stride + head(query) * job_.head_dim;
  }
  [[nodiscard]] float* out(std::size_t query) const {
    return job_.out + token(query) * job_.out_stride + head(query) * job_.value_dim;
  }

 protected:
  const AttentionJob& job_;

 private:
  [[nodiscard]] std::size_t token(std::size_t query) const { return token_begin_ + query / group_; }
  std::size_t group_, kv_head_, token_begin_;
};

/// A query after some of its keys: its largest score, Σ weight, and Σ weight·value, weights being
/// e^(score - max).
struct QueryState {
  float max, sum;
  float* out;  ///< [value_dim]
};

/// The states of a call's queries after one segment, in segment_state_floats().
class SegmentStates {
 public:
  static constexpr std::size_t floats(std::size_t value_dim) {
    return round_up(value_dim + 2, kFloatLanes);
  }
  SegmentStates(float* memory, std::size_t value_dim) : memory_(memory), dim_(value_dim) {}

  [[nodiscard]] QueryState get(std::size_t query) const {
    float* const at = memory_ + query * floats(dim_);
    return {at[dim_], at[dim_ + 1], at};
  }
  void put(std::size_t query, const QueryState& state) {
    float* const at = memory_ + query * floats(dim_);
    __builtin_memcpy(at, state.out, dim_ * sizeof(float));
    at[dim_] = state.max;
    at[dim_ + 1] = state.sum;
  }

 private:
  float* memory_;
  std::size_t dim_;
};

/// A query's segments, from the first to the last, merged in its output; with the last it becomes
/// what attention returns.
template <class Isa>
class SegmentMerge {
  using V = F32x16<Isa>;

 public:
  SegmentMerge(QueryState& all, std::size_t value_dim) : all_(all), dim_(value_dim) {}

  void add(const QueryState& part, bool first, bool last) {
    if (first) {
      all_.max = part.max;
      all_.sum = part.sum;
      const V factor = this->factor(last);
      return put(
          [&](std::size_t i, std::size_t n) { return load_group<Isa>(part.out + i, n) * factor; });
    }
    const V mine = V::broadcast(all_.max), its = V::broadcast(part.max), largest = max(mine, its);
    const V shift =
        max(V::broadcast(-__FLT_MAX__), largest);  // two of -infinity have no weight, not NaN
    const V a = exp_down(mine - shift), b = exp_down(its - shift);
    const auto merged = [&](const V& x, const V& y) { return fma(y, b, x * a); };
    all_.max = largest.max_lane();
    all_.sum = merged(V::broadcast(all_.sum), V::broadcast(part.sum)).max_lane();
    const V factor = this->factor(last);
    put([&](std::size_t i, std::size_t n) {
      return merged(load_group<Isa>(all_.out + i, n), load_group<Isa>(part.out + i, n)) * factor;
    });
  }

 private:
  /// Factor of the output; 1 leaves it unchanged.
  [[nodiscard]] V factor(bool last) const { return V::broadcast(last ? 1.0F / all_.sum : 1.0F); }
  template <class F>
  void put(F f) const {
    for (std::size_t i = 0; i < dim_; i += kFloatLanes) {
      const std::size_t n = dim_ - i < kFloatLanes ? dim_ - i : kFloatLanes;
      store_group(f(i, n), all_.out + i, n);
    }
  }

  QueryState& all_;
  std::size_t dim_;
};

/// KernelSet::merge_segments.
template <class Isa>
void merge_segments(const AttentionJob& job, std::size_t kv_head, std::size_t token_begin,
                    std::size_t token_end) {
  const CallQueries queries(job, kv_head, token_begin);
  const std::size_t n = (token_end - token_begin) * (job.n_heads / job.n_kv_heads);
  const std::size_t first = job.segments_of(token_begin, token_end).begin,
                    floats = n * SegmentStates::floats(job.value_dim);
  for (std::size_t query = 0; query < n; ++query) {
    const SegmentRange seen = job.segments_of(queries.position(query));
    QueryState all{0, 0, queries.out(query)};
    SegmentMerge<Isa> merge(all, job.value_dim);
    for (std::size_t segment = seen.begin; segment < seen.end; ++segment) {
      const SegmentStates states(job.states + (segment - first) * floats, job.value_dim);
      merge.add(states.get(query), segment == seen.begin, segment + 1 == seen.end);
    }
  }
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
