// Experts: who takes which, and their products. Every token's sum runs over its experts in
// ascending order, and an expert's products do not depend on which tokens are computed together.
#include <algorithm>
#include <limits>

#include "engine/execute/executor.h"
#include "kernels/attention/kv_layout.h"
#include "kernels/formats/round.h"

namespace cria {
namespace {

constexpr float kTaken = -std::numeric_limits<float>::infinity();

// The place of the largest of n scores; among equals, the first.
std::size_t best(const float* scores, std::size_t n) {
  return static_cast<std::size_t>(std::max_element(scores, scores + n) - scores);
}

// Takes all groups but the best out of the choice.
void keep_best_groups(const ExpertsSpec& spec, float* scores) {
  const std::size_t size = spec.n / spec.groups;
  const auto worth = [&](std::size_t group) {
    const float *begin = scores + group * size, *end = begin + size,
                *first = std::max_element(begin, end);
    float second = kTaken;
    for (const float* s = begin; s < end; ++s)
      if (s != first) second = std::max(second, *s);
    return spec.groups_by_best ? *first : *first + second;
  };
  for (std::size_t left = spec.groups; left > spec.groups_used; --left) {
    std::size_t worst = spec.groups;
    for (std::size_t g = 0; g < spec.groups; ++g) {
      if (scores[g * size] == kTaken) continue;  // gone already
      if (worst == spec.groups || worth(g) <= worth(worst)) worst = g;
    }
    std::fill_n(scores + worst * size, size, kTaken);
  }
}

Activations in_scratch(ActType type, std::size_t n_tokens, std::size_t cols, std::byte* memory) {
  if (type != ActType::F32) return Activations::place(type, n_tokens, cols, memory);
  Activations acts;
  acts.type = type;
  acts.n_tokens = n_tokens;
  acts.cols = acts.f32_stride = cols;
  acts.f32 = reinterpret_cast<float*>(memory);
  return acts;
}

std::byte* behind_product(std::byte* scratch, std::size_t cols) {
  return scratch + round_up(matmul_scratch_bytes(cols), 64);
}

}  // namespace

// Rows [row_begin, row_end) of W·x·scale + bias; the first of them goes to out[0]. next: the
// weights that are read after them.
void Executor::multiply(const Matrix& m, const Activations& x, float* out, std::size_t out_stride,
                        std::size_t row_begin, std::size_t row_end, std::byte* memory,
                        const std::byte* next) {
  const std::size_t n = row_end - row_begin;
  MatMulJob job{};
  job.row_bytes = m.weight.row_bytes();
  job.weights = m.weight.data + row_begin * job.row_bytes;
  job.rows = n;
  job.cols = m.weight.cols();
  job.x = &x;
  job.out = out;
  job.out_stride = out_stride;
  job.next = next;
  job.fetch = fetch_;
  m.kernel.run(job, 0, n, memory);
  scale_products(m, out, out_stride, x.n_tokens, row_begin, row_end);
  for (std::size_t t = 0; m.bias && t < x.n_tokens; ++t)
    kernels_.add(out + t * out_stride, floats(*m.bias) + row_begin, n);
}

// products: of the router, for this token; they are used up.
void Executor::route_token(const ExpertsSpec& spec, float* products, std::size_t token) {
  const std::size_t n = spec.n, used = spec.used;
  std::uint32_t* const ids = work_.routing.ids + token * used;
  float* const weights = work_.routing.weights + token * used;
  float* const scores = work_.routing.scores + token * n;  // that decide
  if (spec.gating == Gating::Softmax) kernels_.softmax(products, n);
  if (spec.gating == Gating::Sigmoid)
    kernels_.activate({ActivationKind::Sigmoid}, products, nullptr, n);
  // A NaN would be chosen by no comparison; it counts as never chosen, and shows in the weights of
  // all.
  for (std::size_t e = 0; e < n; ++e) {
    scores[e] = products[e] + (spec.selection_bias ? floats(*spec.selection_bias)[e] : 0);
    if (!(scores[e] > std::numeric_limits<float>::lowest()))
      scores[e] = std::numeric_limits<float>::lowest();
  }
  if (spec.groups_used < spec.groups) keep_best_groups(spec, scores);
  for (std::size_t i = 0; i < used; ++i) {
    ids[i] = static_cast<std::uint32_t>(best(scores, n));
    scores[ids[i]] = kTaken;
  }
  std::sort(ids, ids + used);
  for (std::size_t i = 0; i < used; ++i) weights[i] = products[ids[i]];
  if (spec.gating == Gating::SoftmaxOfChosen) kernels_.softmax(weights, used);
  if (spec.gating == Gating::SigmoidOfChosen)
    kernels_.activate({ActivationKind::Sigmoid}, weights, nullptr, used);
  if (spec.normalized) {
    float sum = 0;
    for (std::size_t i = 0; i < used; ++i) sum += weights[i];
    if (sum == 0) sum = 1;  // a bias may choose zeros alone
    for (std::size_t i = 0; i < used; ++i) weights[i] /= sum;
  }
  for (std::size_t i = 0; i < used; ++i) weights[i] *= spec.scale;
}

// Slots by expert, then by token.
void Executor::fill_slots(const ExpertsSpec& spec) {
  Routing& r = work_.routing;
  std::fill_n(r.begin, spec.n + 1, 0);
  for (std::size_t i = begin_ * spec.used; i < end_ * spec.used; ++i) ++r.begin[r.ids[i] + 1];
  r.n_active = 0;
  for (std::size_t e = 0; e < spec.n; ++e) {
    if (r.begin[e + 1] != 0) r.active[r.n_active++] = static_cast<std::uint32_t>(e);
    r.begin[e + 1] += r.begin[e];
  }
  for (std::size_t token = begin_; token < end_; ++token) {
    for (std::size_t i = token * spec.used; i < (token + 1) * spec.used; ++i) {
      const std::uint32_t slot = r.begin[r.ids[i]]++;
      r.token[slot] = static_cast<std::uint32_t>(token);
      r.slot_weight[slot] = r.weights[i];
    }
  }
  for (std::size_t e = spec.n; e > 0; --e)
    r.begin[e] = r.begin[e - 1];  // each had moved to its end
  r.begin[0] = 0;
}

void Executor::route(const Node& node) {
  team_.run(count(), [&](std::size_t chunk, unsigned) {
    route_token(node.experts, work_[node.in].row(begin_ + chunk), begin_ + chunk);
  });
  fill_slots(node.experts);
}

// A chunk is some rows of one expert for all tokens that take it.
void Executor::experts_up(const Node& node) {
  const Routing& r = work_.routing;
  const UnitRange own = part_of(node).own;
  const std::size_t step =
      std::min(round_up(own.size(), kRowTile), rows_per_chunk(own.size() * r.n_active));
  const std::size_t parts = own.size() == 0 ? 0 : divide_up(own.size(), step);
  run_chunks(r.n_active * parts, [&](std::size_t chunk, unsigned worker) {
    const std::size_t begin = own.begin + chunk % parts * step,
                      after = std::min(chunk + 1, r.n_active * parts - 1);
    const std::byte* const next =
        node.matrices[r.active[after / parts]].row(own.begin + after % parts * step);
    experts_up(node, r.active[chunk / parts], begin, std::min(own.end, begin + step), next, worker);
  });
  if (!complete(node) || !node.acts.quantized()) return;
  run_chunks(r.begin[node.experts.n],
             [&](std::size_t slot, unsigned) { quantize_token(node, slot); });
}

void Executor::experts_up(const Node& node, std::size_t expert, std::size_t row_begin,
                          std::size_t row_end, const std::byte* next, unsigned worker) {
  const Routing& r = work_.routing;
  const Value &out = work_[node.out], &up = work_[node.aux];
  const Matrix& gate_matrix = node.matrices[expert];
  const Matrix& up_matrix = node.matrices[node.experts.n + expert];
  std::byte* const memory = behind_product(scratch(worker), gate_matrix.weight.cols());
  for (std::size_t first = r.begin[expert]; first < r.begin[expert + 1]; first += kExpertTokens) {
    const std::size_t n = std::min<std::size_t>(kExpertTokens, r.begin[expert + 1] - first);
    const auto gathered = [&](const Matrix& m) {
      const std::size_t token = r.token[first];
      if (r.token[first + n - 1] - token + 1 == n)
        return work_[node.in].view(m.kernel.act, token, token + n);
      const Activations all = work_[node.in].view(m.kernel.act, 0, end_);
      Activations some = in_scratch(m.kernel.act, n, all.cols, memory);
      for (std::size_t i = 0; i < n; ++i) copy_row(all, r.token[first + i], some, i);
      return some;
    };
    multiply(gate_matrix, gathered(gate_matrix), out.row(first) + row_begin, out.width, row_begin,
             row_end, scratch(worker), up_matrix.row(row_begin));
    multiply(up_matrix, gathered(up_matrix), up.row(first) + row_begin, up.width, row_begin,
             row_end, scratch(worker), next);
    for (std::size_t slot = first; slot < first + n; ++slot) {
      float *const g = out.row(slot) + row_begin, *const u = up.row(slot) + row_begin;
      if (node.experts.weight_at_input) {
        kernels_.scale(g, r.slot_weight[slot], row_end - row_begin);
        kernels_.scale(u, r.slot_weight[slot], row_end - row_begin);
      }
      kernels_.activate(node.activation, g, u, row_end - row_begin);
    }
  }
}

// A chunk is some rows for all tokens and all their experts, in ascending order.
void Executor::experts_down(const Node& node) {
  const UnitRange own = part_of(node).own;
  const RowChunks chunks = weight_chunks(node);
  team_.run(chunks.size(), [&](std::size_t chunk, unsigned worker) {
    const auto [begin, end] = chunks[chunk];
    experts_down(node, own.begin + begin, own.begin + end, worker,
                 weights_after(node, chunk, worker));
  });
  if (complete(node)) quantize_all(node);
}

void Executor::experts_down(const Node& node, std::size_t row_begin, std::size_t row_end,
                            unsigned worker, const std::byte* next) {
  const Routing& r = work_.routing;
  const Value& out = work_[node.out];
  const std::size_t n_rows = row_end - row_begin;
  for (std::size_t token = begin_; token < end_; ++token)
    std::fill_n(out.row(token) + row_begin, n_rows, 0.0F);
  for (std::size_t a = 0; a < r.n_active; ++a) {
    const std::size_t expert = r.active[a];
    const Matrix& m = node.matrices[expert];
    const std::byte* const after =
        a + 1 < r.n_active ? node.matrices[r.active[a + 1]].row(row_begin) : next;
    auto* const products =
        reinterpret_cast<float*>(behind_product(scratch(worker), m.weight.cols()));
    for (std::size_t first = r.begin[expert]; first < r.begin[expert + 1]; first += kExpertTokens) {
      const std::size_t n = std::min<std::size_t>(kExpertTokens, r.begin[expert + 1] - first);
      multiply(m, work_[node.in].view(m.kernel.act, first, first + n), products, n_rows, row_begin,
               row_end, scratch(worker), after);
      for (std::size_t i = 0; i < n; ++i) {
        const float weight = node.experts.weight_at_input ? 1 : r.slot_weight[first + i];
        kernels_.add_scaled(out.row(r.token[first + i]) + row_begin, products + i * n_rows, weight,
                            n_rows);
      }
    }
  }
}

// A chunk is some tokens of one head.
void Executor::head_products(const Node& node) {
  const UnitRange own = part_of(node).own;
  const std::size_t heads = own.size(), blocks = divide_up(count(), kHeadTokens);
  run_chunks(heads * blocks, [&](std::size_t chunk, unsigned worker) {
    const std::size_t begin = begin_ + chunk / heads * kHeadTokens;
    head_product(node, own.begin + chunk % heads, begin, std::min(end_, begin + kHeadTokens),
                 worker, weights_after(node, chunk % heads, worker));
  });
  if (complete(node)) quantize_all(node);
}

void Executor::head_product(const Node& node, std::size_t head, std::size_t begin, std::size_t end,
                            unsigned worker, const std::byte* next) {
  const HeadProductsSpec& spec = node.products;
  const Value &in = work_[node.in], &out = work_[node.out];
  const Matrix& m = node.matrices[head];
  const std::size_t cols = m.weight.cols(), rows = m.weight.rows(), n = end - begin;
  const float* const from = in.row(begin) + head * spec.in_stride;
  float* const to = out.row(begin) + head * spec.out_stride;
  std::byte* const memory = behind_product(scratch(worker), cols);
  if (spec.columns) {
    auto* const row = reinterpret_cast<float*>(memory);
    for (std::size_t t = 0; t < n; ++t) std::fill_n(to + t * out.width, cols, 0.0F);
    for (std::size_t i = 0; i < rows; ++i) {
      dtype_info(m.weight.dtype).dequantize(m.row(i), row, cols);
      for (std::size_t t = 0; t < n; ++t)
        kernels_.add_scaled(to + t * out.width, row, from[t * in.width + i] * m.scale_of(i), cols);
    }
  } else {
    Activations x = in_scratch(m.kernel.act, n, cols, memory);
    if (x.type == ActType::F32) {
      x.f32 = from;
      x.f32_stride = in.width;
    } else {
      kernels_.quantize(from, in.width, x, 0, n, 0, cols);
    }
    multiply(m, x, to, out.width, 0, rows, scratch(worker), next);
  }
  const std::size_t taken = spec.columns ? rows : cols, made = spec.columns ? cols : rows;
  for (std::size_t t = 0; t < n; ++t)
    std::copy_n(from + t * in.width + taken, spec.copied, to + t * out.width + made);
}

}  // namespace cria
