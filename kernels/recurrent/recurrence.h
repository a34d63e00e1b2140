// Gated delta rule and Mamba-2: heads whose state changes only at the ends of blocks of 16
// positions. In between, a row is computed from the last state and a log of the block's rows. So a
// prompt is small matrix products, and a row's bits depend on no other row of the call. Numerics:
// kernels/README.md.
#pragma once

#include <cstddef>

#include "kernels/recurrent/block_products.h"
#include "kernels/recurrent/recurrent.h"
#include "kernels/rows/row_ops.h"
#include "kernels/simd/namespace.h"
#include "kernels/simd/prefetch.h"

namespace cria {
inline namespace CRIA_ISA_NAMESPACE {

/// A head's log of one block.
struct RecurrentLog {
  float* keys;     ///< [key_dim][row]
  float* updates;  ///< [row][padded_values]
  float* decays;   ///< [row], or [row][key_dim]

  RecurrentLog(const RecurrenceJob& job, std::size_t head, std::size_t block) {
    const RecurrenceShape& shape = job.shape;
    float* const logs = job.memory + shape.slots() * shape.snapshot_floats();
    keys = logs + (head * shape.slots() + block % shape.slots()) * shape.log_floats();
    updates = keys + kRecurrentBlock * shape.key_dim;
    decays = updates + kRecurrentBlock * shape.padded_values();
  }
};

/// Scratch of a thread: recurrence_scratch_bytes().
struct RecurrenceScratch {
  float* rows;       ///< [2·16][key_dim]: the rows to be multiplied by the state
  float* decayed;    ///< [key_dim][16]: the block's keys times the decays since
  float* gamma;      ///< [key_dim]: product of the block's decays
  float* minus_c;    ///< [16][16]: key · earlier keys, decayed, negative
  float* m;          ///< [16][16]: query · earlier keys, decayed
  float* products;   ///< [2·16][kStrip]: rows times a strip of the state
  float* row_gamma;  ///< [16]: factor of a row's products
  float* beta;       ///< [16]

  RecurrenceScratch(std::byte* scratch, std::size_t key_dim) {
    constexpr std::size_t kBlock = kRecurrentBlock;
    rows = reinterpret_cast<float*>(scratch);
    decayed = rows + 2 * kBlock * key_dim;
    gamma = decayed + kBlock * key_dim;
    minus_c = gamma + (key_dim + kBlock) / kBlock * kBlock;
    m = minus_c + kBlock * kBlock;
    products = m + kBlock * kBlock;
    row_gamma = products + 2 * kBlock * RecurrenceShape::kStrip;
    beta = row_gamma + kBlock;
  }
};

/// Rows of one head within a block.
template <class Isa>
class RecurrentRows {
  using V = F32x16<Isa>;
  static constexpr std::size_t kBlock = kRecurrentBlock, kStrip = RecurrenceShape::kStrip;

 public:
  /// Rows [t, t + n) of the job.
  RecurrentRows(const RecurrenceJob& job, std::size_t head, std::size_t t, std::size_t n,
                std::byte* scratch)
      : job_(job),
        head_(head),
        t_(t),
        n_(n),
        first_((job.first_pos + t) % kBlock),
        block_((job.first_pos + t) / kBlock),
        dim_(job.shape.key_dim),
        per_row_(job.delta ? 2 : 1),
        log_(job, head, block_),
        to_(scratch, dim_) {}

  void run() {
    if (job_.first_pos + t_ == 0)
      __builtin_memset(state(0), 0, job_.shape.state_floats() * sizeof(float));
    prefetch_next_rows();
    read_rows();
    job_.shape.key_decay ? multiply_keys_with_key_decays() : multiply_keys();
    const bool full = first_ + n_ == kBlock;
    for (std::size_t from = 0; from < job_.shape.padded_values(); from += kStrip) {
      const float* const strip = state(block_) + from * dim_;
      multiply_rows<Isa>(to_.rows, n_ * per_row_, dim_, strip, to_.products);
      for (std::size_t at = 0; at < kStrip; at += kTogether * kFloatLanes)
        for (std::size_t row = 0; row < n_; ++row) finish_row(row, from, at);
      if (full)
        commit_strip<Isa>(strip, state(block_ + 1) + from * dim_, dim_, to_.gamma, to_.decayed,
                          log_.updates + from, job_.shape.padded_values());
    }
  }

 private:
  /// Groups of lanes that are computed together.
  static constexpr std::size_t kTogether = V::kParts == 1 ? 2 : 1;

  float* state(std::size_t block) const {
    const RecurrenceShape& shape = job_.shape;
    return job_.memory + (block % shape.slots() * shape.n_heads + head_) * shape.state_floats();
  }
  /// The key's row of to_.rows, and the query's.
  float* key(std::size_t row) const { return to_.rows + row * per_row_ * dim_; }
  float* query(std::size_t row) const { return key(row) + (per_row_ - 1) * dim_; }

  /// The first value of the head's key in a row.
  [[nodiscard]] std::size_t key_column() const {
    return (job_.first_head + head_) / job_.key_head_repeat % job_.n_key_heads * dim_;
  }

  /// Rows of a head are far apart in memory, so hardware does not prefetch them.
  CRIA_INLINE void prefetch_next_rows() const {
    const std::size_t values = job_.shape.value_dim, key_head = key_column();
    for (std::size_t t = t_ + n_; t < job_.n_rows && t < t_ + n_ + kBlock; ++t) {
      prefetch_row(job_.k + t * job_.k_stride + key_head, dim_);
      prefetch_row(job_.q + t * job_.q_stride + key_head, dim_);
      prefetch_row(job_.v + t * job_.v_stride + head_ * values, values);
    }
  }
  CRIA_INLINE static void prefetch_row(const float* row, std::size_t n) {
    prefetch_lines<3>(reinterpret_cast<const std::byte*>(row), 0, static_cast<int>((n + 15) / 16));
  }

  /// Normalizes keys and queries, and appends keys and decays to the log. (Without the delta rule,
  /// a key is only logged.)
  void read_rows() const {
    const std::size_t key_head = key_column();
    const std::size_t decays = job_.shape.key_decay ? dim_ : 1;
    for (std::size_t row = 0; row < n_; ++row) {
      const std::size_t t = t_ + row;
      to_.beta[row] = job_.beta[t * job_.beta_stride + head_];
      __builtin_memcpy(log_.decays + (first_ + row) * decays,
                       job_.decay + t * job_.decay_stride + head_ * decays, decays * sizeof(float));
      put_row(job_.k + t * job_.k_stride + key_head, 1, key(row));
      for (std::size_t i = 0; i < dim_; ++i) log_.keys[i * kBlock + first_ + row] = key(row)[i];
      put_row(job_.q + t * job_.q_stride + key_head, job_.q_scale, query(row));
    }
  }
  void put_row(const float* from, float factor, float* to) const {
    if (job_.norm_eps != 0) {
      V squares = V::broadcast(0);
      for_each_group(dim_, [&](std::size_t i, std::size_t lanes) {
        const V v = load_group<Isa>(from + i, lanes);
        squares = fma(v, v, squares);
      });
      factor *= 1.0F / __builtin_sqrtf(squares.sum() + job_.norm_eps);
    }
    for_each_group(dim_, [&](std::size_t i, std::size_t lanes) {
      store_group(load_group<Isa>(from + i, lanes) * V::broadcast(factor), to + i, lanes);
    });
  }

  /// Products of decays since each row of the block; a row's products of keys times these.
  void multiply_keys() const {
    alignas(64) float since[kBlock] = {};
    float gamma = 1;
    V sums[2 * kBlock];
    multiply_by_keys<Isa>(to_.rows, n_ * per_row_, dim_, log_.keys, sums);
    for (std::size_t at = 0; at < first_ + n_; ++at) {
      const float decay = log_.decays[at];
      gamma *= decay;
      const V factors = V::load(since) * V::broadcast(decay);
      factors.store(since);
      since[at] = 1;
      if (at < first_) continue;
      const std::size_t row = at - first_;
      to_.row_gamma[row] = gamma;
      put_products(row, sums + row * per_row_, V::load(since));
    }
    if (first_ + n_ < kBlock) return;
    const V factors = V::load(since);
    for (std::size_t i = 0; i < dim_; ++i) {
      to_.gamma[i] = gamma;
      (V::load(log_.keys + i * kBlock) * factors).store(to_.decayed + i * kBlock);
    }
  }
  /// The same with a decay per key dimension: the keys themselves decay.
  void multiply_keys_with_key_decays() const {
    for (std::size_t i = 0; i < dim_; ++i) {
      to_.gamma[i] = 1;
      V::broadcast(0).store(to_.decayed + i * kBlock);
    }
    for (std::size_t at = 0; at < first_ + n_; ++at) {
      const float* const decay = log_.decays + at * dim_;
      for (std::size_t i = 0; i < dim_; ++i) {
        float* const keys = to_.decayed + i * kBlock;
        to_.gamma[i] *= decay[i];
        (V::load(keys) * V::broadcast(decay[i])).store(keys);
        keys[at] = log_.keys[i * kBlock + at];
      }
      if (at < first_) continue;
      const std::size_t row = at - first_;
      V sums[2];
      multiply_by_keys<Isa>(key(row), per_row_, dim_, to_.decayed, sums);
      put_products(row, sums, V::broadcast(1));
      to_.row_gamma[row] = 1;
      for (std::size_t i = 0; i < dim_; ++i) {
        if (job_.delta) key(row)[i] *= to_.gamma[i];
        query(row)[i] *= to_.gamma[i];
      }
    }
  }
  void put_products(std::size_t row, const V* sums, const V& factors) const {
    if (job_.delta) (sums[0] * (V::broadcast(0) - factors)).store(to_.minus_c + row * kBlock);
    (sums[per_row_ - 1] * factors).store(to_.m + row * kBlock);
  }

  /// The update and the output of a row, for kTogether groups of lanes of a strip.
  void finish_row(std::size_t row, std::size_t from, std::size_t at) const {
    const std::size_t values = job_.shape.value_dim, padded = job_.shape.padded_values();
    const std::size_t t = t_ + row, own = first_ + row, lane = from + at;
    const float* const v = job_.v + t * job_.v_stride + head_ * values;
    const float *const minus_c = to_.minus_c + row * kBlock, *const m = to_.m + row * kBlock;
    const float* const products = to_.products + row * per_row_ * kStrip + at;
    const V gamma = V::broadcast(to_.row_gamma[row]);
    V input[kTogether], x[kTogether], y[kTogether];
    CRIA_UNROLL
    for (std::size_t g = 0; g < kTogether; ++g) {
      const std::size_t i = lane + g * kFloatLanes;
      input[g] = x[g] = i < values ? load_group<Isa>(v + i, lanes_from(i)) : V::broadcast(0);
      if (job_.delta)
        x[g] = fma(V::broadcast(-to_.row_gamma[row]), V::load(products + g * kFloatLanes), x[g]);
      y[g] = gamma * V::load(products + (per_row_ - 1) * kStrip + g * kFloatLanes);
    }
    const float* updates = log_.updates + lane;
    for (std::size_t s = 0; s < own; ++s, updates += padded) CRIA_UNROLL
    for (std::size_t g = 0; g < kTogether; ++g) {
      const V update = V::load(updates + g * kFloatLanes);
      if (job_.delta) x[g] = fma(V::broadcast(minus_c[s]), update, x[g]);
      y[g] = fma(V::broadcast(m[s]), update, y[g]);
    }
    const V beta = V::broadcast(to_.beta[row]), own_m = V::broadcast(m[own]);
    CRIA_UNROLL
    for (std::size_t g = 0; g < kTogether; ++g) {
      const std::size_t i = lane + g * kFloatLanes;
      const V update = x[g] * beta;
      update.store(log_.updates + own * padded + i);
      y[g] = fma(own_m, update, y[g]);
      if (job_.skip != nullptr) y[g] = fma(V::broadcast(job_.skip[head_]), input[g], y[g]);
      if (i < values)
        store_group(y[g], job_.out + t * job_.out_stride + head_ * values + i, lanes_from(i));
    }
  }
  [[nodiscard]] std::size_t lanes_from(std::size_t i) const {
    return job_.shape.value_dim - i < kFloatLanes ? job_.shape.value_dim - i : kFloatLanes;
  }

  const RecurrenceJob& job_;
  std::size_t head_, t_, n_;
  std::size_t first_;  ///< the first row's place in its block
  std::size_t block_;
  std::size_t dim_;
  std::size_t per_row_;  ///< rows to be multiplied by the state: key and query, or the query
  RecurrentLog log_;
  RecurrenceScratch to_;
};

/// KernelSet::recurrence.
template <class Isa>
void recurrence(const RecurrenceJob& job, std::size_t head_begin, std::size_t head_end,
                std::byte* scratch) {
  for (std::size_t head = head_begin; head < head_end; ++head)
    for (std::size_t t = 0; t < job.n_rows;) {
      const std::size_t left = kRecurrentBlock - (job.first_pos + t) % kRecurrentBlock;
      const std::size_t n = job.n_rows - t < left ? job.n_rows - t : left;
      RecurrentRows<Isa>(job, head, t, n, scratch).run();
      t += n;
    }
}

}  // namespace CRIA_ISA_NAMESPACE
}  // namespace cria
