// Recurrences of heads: the scalar kernel against its definition, and every instruction set,
// every division of the rows and every roll-back against the scalar kernel in one call.
#include <cmath>
#include <string>

#include "kernels/recurrent/recurrent.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

struct RecurrenceCase {
  std::size_t n_heads, n_key_heads, repeat, key_dim, value_dim;
  bool delta, key_decay, skip;
  float strength;  ///< mean of -ln decay
};

constexpr RecurrenceCase kCases[] = {
    {2, 2, 1, 128, 128, true, false, false, 0.3F}, {4, 2, 2, 20, 24, true, false, false, 0.1F},
    {4, 2, 1, 9, 7, true, false, false, 9.0F},     {2, 2, 1, 32, 40, true, true, false, 0.2F},
    {3, 3, 1, 7, 5, true, true, false, 8.0F},      {4, 2, 2, 128, 64, false, false, true, 0.2F},
    {6, 1, 6, 10, 4, false, false, true, 20.0F},   {1, 1, 1, 1, 1, true, false, true, 0.5F},
};

/// Inputs of a case, every array at its own misalignment.
struct RecurrenceInputs {
  RecurrenceCase c;
  std::size_t n;
  Buffer<float> q, k, v, beta, decay, skip;

  RecurrenceInputs(const RecurrenceCase& which, std::size_t rows, std::size_t offset = 0)
      : c(which),
        n(rows),
        q(rows * stride(which.n_key_heads * which.key_dim), offset),
        k(q.size(), offset + 1),
        v(rows * stride(which.n_heads * which.value_dim), offset),
        beta(rows * stride(which.n_heads), offset + 2),
        decay(rows * stride(which.n_heads * (which.key_decay ? which.key_dim : 1)), offset),
        skip(which.n_heads, offset) {
    fill_random(q.data(), q.size(), 1);
    fill_random(k.data(), k.size(), 2);
    fill_random(v.data(), v.size(), 3);
    fill_random(beta.data(), beta.size(), 4);
    fill_random(decay.data(), decay.size(), 5);
    fill_random(skip.data(), skip.size(), 6);
    for (float& x : beta) x = 1 / (1 + std::exp(-x));
    for (float& x : decay) x = std::exp(-c.strength * std::abs(x));
    if (!c.delta)
      for (float& x : k) x *= 0.2F;
  }
  static std::size_t stride(std::size_t n) { return n + 3; }

  [[nodiscard]] RecurrenceJob job(std::size_t rollback) const {
    RecurrenceJob job{};
    job.shape = {c.n_heads, c.key_dim, c.value_dim, c.key_decay, rollback};
    job.n_key_heads = c.n_key_heads;
    job.key_head_repeat = c.repeat;
    job.delta = c.delta;
    if (c.delta) {
      job.norm_eps = 1e-6F;
      job.q_scale = 1 / std::sqrt(static_cast<float>(c.key_dim));
    }
    job.q_stride = job.k_stride = stride(c.n_key_heads * c.key_dim);
    job.v_stride = job.out_stride = stride(c.n_heads * c.value_dim);
    job.beta_stride = stride(c.n_heads);
    job.decay_stride = stride(c.n_heads * (c.key_decay ? c.key_dim : 1));
    job.skip = c.skip ? skip.data() : nullptr;
    return job;
  }
};

/// A sequence whose rows are given to a kernel in pieces.
class RecurrentSequence {
 public:
  RecurrentSequence(const KernelSet& kernels, const RecurrenceInputs& inputs,
                    std::size_t rollback = 0, std::size_t offset = 0)
      : out(inputs.v.size(), offset),
        kernels_(kernels),
        inputs_(inputs),
        job_(inputs.job(rollback)),
        memory_(job_.shape.floats()),
        scratch_(recurrence_scratch_bytes(inputs.c.key_dim)) {
    for (float& x : memory_) x = NAN;  // kernels must not read what they have not written
    for (float& x : out) x = 0;
  }
  /// Rows [first, first + n); from: other rows in their place.
  void run(std::size_t first, std::size_t n, std::size_t from) {
    job_.memory = memory_.data();
    job_.first_pos = first;
    job_.n_rows = n;
    job_.q = inputs_.q.data() + from * job_.q_stride;
    job_.k = inputs_.k.data() + from * job_.k_stride;
    job_.v = inputs_.v.data() + from * job_.v_stride;
    job_.beta = inputs_.beta.data() + from * job_.beta_stride;
    job_.decay = inputs_.decay.data() + from * job_.decay_stride;
    job_.out = out.data() + first * job_.out_stride;
    const std::size_t half = inputs_.c.n_heads / 2;
    kernels_.recurrence(job_, half, inputs_.c.n_heads, scratch_.data());
    kernels_.recurrence(job_, 0, half, scratch_.data());
  }
  void run(std::size_t first, std::size_t n) { run(first, n, first); }
  void snapshot_to(RecurrentSequence& other) const {
    std::copy_n(memory_.data() + job_.shape.snapshot_offset(), job_.shape.snapshot_floats(),
                other.memory_.data() + other.job_.shape.snapshot_offset());
  }

  Buffer<float> out;

 private:
  const KernelSet& kernels_;
  const RecurrenceInputs& inputs_;
  RecurrenceJob job_;
  Buffer<float> memory_;
  Buffer<std::byte> scratch_;
};

/// The recurrence in double, position by position, and the largest magnitude of an output.
std::vector<double> exact_recurrence(const RecurrenceInputs& in) {
  const RecurrenceCase& c = in.c;
  const RecurrenceJob job = in.job(0);
  std::vector<double> out(in.v.size()), state(c.key_dim * c.value_dim), k(c.key_dim), q(c.key_dim);
  for (std::size_t h = 0; h < c.n_heads; ++h) {
    std::ranges::fill(state, 0);
    const std::size_t key_head = (c.repeat == 1 ? h % c.n_key_heads : h / c.repeat) * c.key_dim;
    for (std::size_t t = 0; t < in.n; ++t) {
      const float* const key = in.k.data() + t * job.k_stride + key_head;
      const float* const query = in.q.data() + t * job.q_stride + key_head;
      double kk = c.delta ? 1e-6 : 1, qq = kk;
      for (std::size_t i = 0; i < c.key_dim && c.delta; ++i) {
        kk += static_cast<double>(key[i]) * key[i];
        qq += static_cast<double>(query[i]) * query[i];
      }
      for (std::size_t i = 0; i < c.key_dim; ++i) {
        k[i] = key[i] / std::sqrt(kk);
        q[i] = query[i] / std::sqrt(qq) * (c.delta ? 1 / std::sqrt(c.key_dim) : 1);
        const std::size_t decay = c.key_decay ? h * c.key_dim + i : h;
        for (std::size_t j = 0; j < c.value_dim; ++j)
          state[i * c.value_dim + j] *= in.decay[t * job.decay_stride + decay];
      }
      for (std::size_t j = 0; j < c.value_dim; ++j) {
        const double v = in.v[t * job.v_stride + h * c.value_dim + j];
        double known = 0, y = c.skip ? in.skip[h] * v : 0;
        for (std::size_t i = 0; i < c.key_dim && c.delta; ++i)
          known += state[i * c.value_dim + j] * k[i];
        const double update = (v - known) * in.beta[t * job.beta_stride + h];
        for (std::size_t i = 0; i < c.key_dim; ++i) {
          state[i * c.value_dim + j] += k[i] * update;
          y += state[i * c.value_dim + j] * q[i];
        }
        out[t * job.out_stride + h * c.value_dim + j] = y;
      }
    }
  }
  return out;
}

std::string name_of(const RecurrenceCase& c, const KernelSet& kernels) {
  return std::string(kernels.isa) + ", case " + std::to_string(&c - kCases);
}

/// One head by the contract's formulas, in plain floats.
class DefinedHead {
 public:
  DefinedHead(const RecurrenceInputs& inputs, std::size_t head)
      : in_(inputs),
        c_(inputs.c),
        job_(inputs.job(0)),
        head_(head),
        key_head_(c_.repeat == 1 ? head % c_.n_key_heads : head / c_.repeat),
        gamma_(c_.key_dim, 1.0F),
        state_(c_.key_dim, std::vector<float>(c_.value_dim)) {}

  /// Output of row t; rows come in order.
  std::vector<float> row(std::size_t t) {
    const std::vector<float> k = unit(in_.k.data() + t * job_.k_stride, 1),
                             q = unit(in_.q.data() + t * job_.q_stride, job_.q_scale);
    std::vector<float> out(c_.value_dim), update(c_.value_dim);
    decay(t, k);
    std::vector<float> c, m;
    for (const auto& row : rows_) {
      c.push_back(dot(k, row.key) * row.since);
      m.push_back(dot(q, row.key) * row.since);
    }
    const float gamma = c_.key_decay ? 1 : gamma_[0];
    for (std::size_t j = 0; j < c_.value_dim; ++j) {
      float a = 0, b = 0;
      for (std::size_t i = 0; i < c_.key_dim; ++i) {
        const float factor = c_.key_decay ? gamma_[i] : 1;
        a = std::fma(state_[i][j], k[i] * factor, a);
        b = std::fma(state_[i][j], q[i] * factor, b);
      }
      const float v = in_.v[t * job_.v_stride + head_ * c_.value_dim + j];
      float x = c_.delta ? std::fma(-gamma, a, v) : v;
      for (std::size_t s = 0; s + 1 < rows_.size() && c_.delta; ++s)
        x = std::fma(-c[s], rows_[s].update[j], x);
      rows_.back().update[j] = x * in_.beta[t * job_.beta_stride + head_];
      float y = gamma * b;
      for (std::size_t s = 0; s < rows_.size(); ++s) y = std::fma(m[s], rows_[s].update[j], y);
      out[j] = c_.skip ? std::fma(in_.skip[head_], v, y) : y;
    }
    if (rows_.size() == kRecurrentBlock) commit();
    return out;
  }

 private:
  struct Row {
    std::vector<float> key, update;
    float since = 1;
  };

  std::vector<float> unit(const float* row, float factor) const {
    const float* const x = row + key_head_ * c_.key_dim;
    std::vector<float> out(x, x + c_.key_dim);
    if (job_.norm_eps != 0) {
      float lanes[16] = {};
      for (std::size_t i = 0; i < c_.key_dim; ++i)
        lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
      for (std::size_t half = 8; half > 0; half /= 2)
        for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
      factor *= 1 / std::sqrt(lanes[0] + job_.norm_eps);
    }
    for (float& v : out) v *= factor;
    return out;
  }
  static float dot(const std::vector<float>& a, const std::vector<float>& b) {
    float sums[4] = {};
    for (std::size_t i = 0; i < a.size(); ++i) sums[i % 4] = std::fma(a[i], b[i], sums[i % 4]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  void decay(std::size_t t, const std::vector<float>& k) {
    const float* const e =
        in_.decay.data() + t * job_.decay_stride + head_ * (c_.key_decay ? c_.key_dim : 1);
    for (std::size_t i = 0; i < c_.key_dim; ++i) gamma_[i] *= c_.key_decay ? e[i] : e[0];
    for (Row& row : rows_) {
      if (!c_.key_decay) row.since *= e[0];
      for (std::size_t i = 0; i < c_.key_dim && c_.key_decay; ++i) row.key[i] *= e[i];
    }
    rows_.push_back({k, std::vector<float>(c_.value_dim)});
  }
  void commit() {
    for (std::size_t i = 0; i < c_.key_dim; ++i)
      for (std::size_t j = 0; j < c_.value_dim; ++j) {
        float& s = state_[i][j];
        s *= gamma_[i];
        for (const Row& row : rows_) s = std::fma(row.key[i] * row.since, row.update[j], s);
      }
    rows_.clear();
    std::ranges::fill(gamma_, 1.0F);
  }

  const RecurrenceInputs& in_;
  RecurrenceCase c_;
  RecurrenceJob job_;
  std::size_t head_, key_head_;
  std::vector<float> gamma_;
  std::vector<std::vector<float>> state_;
  std::vector<Row> rows_;
};

TEST(Recurrence, FollowsItsDefinition) {
  for (const RecurrenceCase& c : kCases) {
    const RecurrenceInputs inputs(c, 75);
    RecurrentSequence sequence(scalar_kernels(), inputs);
    sequence.run(0, inputs.n);
    for (std::size_t head = 0; head < c.n_heads; ++head) {
      DefinedHead defined(inputs, head);
      for (std::size_t t = 0; t < inputs.n; ++t) {
        const std::vector<float> want = defined.row(t);
        ASSERT_TRUE(
            std::equal(want.begin(), want.end(),
                       sequence.out.begin() + t * inputs.job(0).out_stride + head * c.value_dim))
            << name_of(c, scalar_kernels()) << ", head " << head << ", row " << t;
      }
    }
  }
}

TEST(Recurrence, FollowsTheRecurrenceInDouble) {
  for (const RecurrenceCase& c : kCases) {
    const RecurrenceInputs inputs(c, 150);
    RecurrentSequence sequence(scalar_kernels(), inputs);
    sequence.run(0, inputs.n);
    const std::vector<double> want = exact_recurrence(inputs);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      error += std::pow(sequence.out[i] - want[i], 2);
      size += std::pow(want[i], 2);
    }
    // A sum has at most 128 + 16 + 4 products. Each rounds by 2^-24 of partial sums of the result's
    // size; roundings add like a random walk. Decaying states forget the errors of earlier rows.
    EXPECT_LT(std::sqrt(error / size), 24 * 0x1p-24) << name_of(c, scalar_kernels());
  }
}

TEST(Recurrence, SameBitsForAnyPieces) {
  for (const RecurrenceCase& c : kCases) {
    const RecurrenceInputs inputs(c, 131);
    RecurrentSequence whole(scalar_kernels(), inputs);
    whole.run(0, inputs.n);
    for (const KernelSet* kernels : tested_kernels())
      for (const std::size_t piece : {1, 7, 16, 64, 131, 0}) {
        const RecurrenceInputs shifted(c, inputs.n, piece % 5 + 1);
        RecurrentSequence sequence(*kernels, shifted, piece % 2, piece % 3);
        std::mt19937 random(static_cast<unsigned>(piece));
        for (std::size_t at = 0; at < inputs.n;) {
          const std::size_t n = std::min(piece != 0 ? piece : 1 + random() % 23, inputs.n - at);
          sequence.run(at, n);
          at += n;
        }
        EXPECT_EQ(sequence.out, whole.out)
            << name_of(c, *kernels) << ", pieces of " << piece << " (0: random)";
      }
  }
}

// The memory of some heads, which count from first_head. The inputs are theirs, but all key heads.
TEST(Recurrence, SameBitsForSomeOfTheHeads) {
  for (const RecurrenceCase& c : kCases) {
    const RecurrenceInputs inputs(c, 40);
    RecurrentSequence whole(scalar_kernels(), inputs);
    whole.run(0, inputs.n);
    const std::size_t first = c.n_heads / 2;
    RecurrenceJob job = inputs.job(0);
    job.shape.n_heads -= first;
    job.first_head = first;
    Buffer<float> memory(job.shape.floats()), out(inputs.v.size());
    Buffer<std::byte> scratch(recurrence_scratch_bytes(c.key_dim));
    job.memory = memory.data();
    job.n_rows = inputs.n;
    job.q = inputs.q.data();
    job.k = inputs.k.data();
    job.v = inputs.v.data() + first * c.value_dim;
    job.beta = inputs.beta.data() + first;
    job.decay = inputs.decay.data() + first * (c.key_decay ? c.key_dim : 1);
    if (c.skip) job.skip += first;
    job.out = out.data();
    for (const KernelSet* kernels : tested_kernels()) {
      kernels->recurrence(job, 0, job.shape.n_heads, scratch.data());
      for (std::size_t t = 0; t < inputs.n; ++t) {
        const std::size_t row = t * job.out_stride, width = job.shape.n_heads * c.value_dim;
        ASSERT_TRUE(std::equal(out.begin() + row, out.begin() + row + width,
                               whole.out.begin() + row + first * c.value_dim))
            << name_of(c, *kernels) << ", row " << t;
      }
    }
  }
}

TEST(Recurrence, DropsRows) {
  for (const RecurrenceCase& c : kCases) {
    const RecurrenceInputs inputs(c, 150);
    RecurrentSequence whole(scalar_kernels(), inputs);
    whole.run(0, inputs.n);
    for (const KernelSet* kernels : tested_kernels()) {
      RecurrentSequence sequence(*kernels, inputs, kMaxRollback);
      std::mt19937 random(5);
      for (std::size_t at = 0; at < inputs.n;) {
        // Rows that are right, then wrong ones, which the next call drops.
        const std::size_t right = std::min<std::size_t>(1 + random() % 4, inputs.n - at),
                          wrong = std::min(random() % (kMaxRollback + 1), inputs.n - at - right);
        sequence.run(at, right);
        at += right;
        if (wrong > 0) sequence.run(at, wrong, (at * 7 + 11) % (inputs.n - kMaxRollback));
      }
      EXPECT_EQ(sequence.out, whole.out) << name_of(c, *kernels);
    }
  }
}

TEST(Recurrence, ResumesFromASnapshot) {
  for (const RecurrenceCase& c : kCases) {
    const RecurrenceInputs inputs(c, 150);
    RecurrentSequence whole(scalar_kernels(), inputs);
    whole.run(0, inputs.n);
    for (const std::size_t rollback : {std::size_t{0}, kMaxRollback}) {
      RecurrentSequence first(scalar_kernels(), inputs, rollback),
          second(scalar_kernels(), inputs, rollback);
      first.run(0, 64);
      first.snapshot_to(second);
      second.run(64, inputs.n - 64);
      const std::size_t done = 64 * inputs.job(0).out_stride;
      EXPECT_TRUE(std::equal(second.out.begin() + done, second.out.end(), whole.out.begin() + done))
          << name_of(c, scalar_kernels());
    }
  }
}

}  // namespace
}  // namespace cria
