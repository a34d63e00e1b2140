// The queries of one call of attention: which token and head each is of, and where it and its
// output lie.
#pragma once

#include <cstddef>

#include "kernels/attention/attention.h"

namespace cria {

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

}  // namespace cria
