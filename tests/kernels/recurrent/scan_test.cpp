// Mamba-1's scan, and the step sizes and decays of all recurrent layers.
#include <cmath>
#include <limits>

#include "kernels/recurrent/recurrent.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

struct ScanCase {
  std::size_t channels, state_dim;
  bool skip;
};
constexpr ScanCase kScans[] = {{50, 16, true}, {16, 8, false}, {33, 20, true}, {1, 1, true}};

/// A sequence whose rows are given to a kernel in pieces.
class ScanSequence {
 public:
  ScanSequence(const KernelSet& kernels, const ScanCase& c, std::size_t rows,
               std::size_t rollback = 0, std::size_t offset = 0)
      : x(rows * (c.channels + 1), offset),
        dt(x.size(), offset + 1),
        b(rows * (c.state_dim + 2), offset),
        c_(b.size(), offset + 2),
        a(c.channels * c.state_dim, offset),
        skip(c.channels, offset + 3),
        out(x.size(), offset),
        kernels_(kernels),
        memory_(ScanShape{c.channels, c.state_dim, rollback}.floats()) {
    fill_random(x.data(), x.size(), 1);
    fill_random(dt.data(), dt.size(), 2);
    fill_random(b.data(), b.size(), 3);
    fill_random(c_.data(), c_.size(), 4);
    fill_random(a.data(), a.size(), 5);
    fill_random(skip.data(), skip.size(), 6);
    for (float& v : dt) v = std::abs(v) * 0.3F;
    for (float& v : a) v = -16 * std::abs(v);
    for (float& v : out) v = 0;
    for (float& v : memory_) v = NAN;
    job_.shape = {c.channels, c.state_dim, rollback};
    job_.memory = memory_.data();
    job_.x_stride = job_.dt_stride = job_.out_stride = c.channels + 1;
    job_.b_stride = job_.c_stride = c.state_dim + 2;
    job_.a = a.data();
    job_.skip = c.skip ? skip.data() : nullptr;
  }
  /// Rows [first, first + n); from: other rows in their place.
  void run(std::size_t first, std::size_t n, std::size_t from) {
    job_.first_pos = first;
    job_.n_rows = n;
    job_.x = x.data() + from * job_.x_stride;
    job_.dt = dt.data() + from * job_.dt_stride;
    job_.b = b.data() + from * job_.b_stride;
    job_.c = c_.data() + from * job_.c_stride;
    job_.out = out.data() + first * job_.out_stride;
    const std::size_t half = job_.shape.channels / 2;
    kernels_.selective_scan(job_, half, job_.shape.channels);
    kernels_.selective_scan(job_, 0, half);
  }
  void run(std::size_t first, std::size_t n) { run(first, n, first); }
  void snapshot_to(ScanSequence& other) const {
    std::copy_n(memory_.data() + job_.shape.snapshot_offset(), job_.shape.snapshot_floats(),
                other.memory_.data() + other.job_.shape.snapshot_offset());
  }
  [[nodiscard]] const ScanJob& job() const { return job_; }

  Buffer<float> x, dt, b, c_, a, skip, out;

 private:
  const KernelSet& kernels_;
  Buffer<float> memory_;
  ScanJob job_{};
};

TEST(SelectiveScan, FollowsTheRecurrenceInDouble) {
  for (const ScanCase& c : kScans) {
    ScanSequence s(scalar_kernels(), c, 80);
    s.run(0, 80);
    const ScanJob& job = s.job();
    double error = 0, size = 0;
    for (std::size_t channel = 0; channel < c.channels; ++channel) {
      std::vector<double> state(c.state_dim);
      for (std::size_t t = 0; t < 80; ++t) {
        const double x = s.x[t * job.x_stride + channel], dt = s.dt[t * job.dt_stride + channel];
        double y = c.skip ? s.skip[channel] * x : 0;
        for (std::size_t d = 0; d < c.state_dim; ++d) {
          state[d] = std::exp(dt * s.a[channel * c.state_dim + d]) * state[d] +
                     dt * x * s.b[t * job.b_stride + d];
          y += state[d] * s.c_[t * job.c_stride + d];
        }
        error += std::pow(s.out[t * job.out_stride + channel] - y, 2);
        size += y * y;
      }
    }
    // Rounding of dt·a, up to about 8, moves a decay by 8 units of 2^-24; decays hold for few rows.
    EXPECT_LT(std::sqrt(error / size), 16 * 0x1p-24) << c.channels << " channels";
  }
}

TEST(SelectiveScan, SameBitsForAnyPieces) {
  for (const ScanCase& c : kScans) {
    ScanSequence whole(scalar_kernels(), c, 100);
    whole.run(0, 100);
    for (const KernelSet* kernels : tested_kernels())
      for (const std::size_t piece : {1, 7, 16, 64, 100}) {
        ScanSequence sequence(*kernels, c, 100, piece % 4, piece % 5);
        for (std::size_t at = 0; at < 100; at += piece)
          sequence.run(at, std::min<std::size_t>(piece, 100 - at));
        EXPECT_EQ(sequence.out, whole.out)
            << kernels->isa << ", " << c.channels << " channels, pieces of " << piece;
      }
  }
}

TEST(SelectiveScan, DropsRowsAndResumesFromASnapshot) {
  for (const ScanCase& c : kScans) {
    ScanSequence whole(scalar_kernels(), c, 150);
    whole.run(0, 150);
    for (const KernelSet* kernels : tested_kernels())
      for (const std::size_t rollback : {1, 5, 16}) {
        ScanSequence sequence(*kernels, c, 150, rollback), later(*kernels, c, 150, rollback);
        std::mt19937 random(5);
        for (std::size_t at = 0; at < 150;) {
          const std::size_t limit = at < 64 ? 64 : 150;  // stops at 64 for the snapshot
          const std::size_t right = std::min<std::size_t>(1 + random() % 4, limit - at),
                            wrong = std::min(random() % (rollback + 1), limit - at - right);
          sequence.run(at, right);
          at += right;
          if (wrong > 0) sequence.run(at, wrong, (at * 7 + 11) % 130);
          if (at == 64) sequence.snapshot_to(later);
        }
        EXPECT_EQ(sequence.out, whole.out) << kernels->isa << ", rollback " << rollback;
        later.run(64, 86);
        const std::size_t done = 64 * whole.job().out_stride;
        EXPECT_TRUE(std::equal(later.out.begin() + done, later.out.end(), whole.out.begin() + done))
            << kernels->isa << ", rollback " << rollback;
      }
  }
}

/// Values around every place where softplus changes its shape.
std::vector<float> softplus_inputs() {
  std::vector<float> x = {0, -0.0F, 1e-30F, -1e-30F, 200, -200, -104, -87.5F, 1e38F, -1e38F};
  for (float v = -110; v < 40; v += 0.037F) x.push_back(v);
  return x;
}

TEST(SoftplusDecay, IsCloseToDouble) {
  const std::vector<float> x = softplus_inputs();
  std::vector<float> dt(x.size()), a(x.size(), -0.7F), decay(x.size());
  scalar_kernels().softplus_decay(x.data(), nullptr, a.data(), x.size(), 1, dt.data(),
                                  decay.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double z = x[i];
    const double want = std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
    // Three roundings of u, s and the sum, and e^z to about one unit; subnormal results: one unit.
    EXPECT_NEAR(dt[i], want, 5 * 0x1p-24 * want + 0x1p-149) << x[i];
    const double exponent = static_cast<double>(dt[i]) * -0.7F;
    EXPECT_NEAR(decay[i], std::exp(exponent),
                (3 + std::abs(exponent)) * 0x1p-24 * std::exp(exponent) + 0x1p-149)
        << x[i];
  }
}

TEST(SoftplusDecay, KeepsInfinityAndNaN) {
  const float inf = std::numeric_limits<float>::infinity();
  const float x[] = {inf, -inf, NAN}, a[] = {-1, -1, -1};
  for (const KernelSet* kernels : tested_kernels()) {
    float dt[3], decay[3];
    kernels->softplus_decay(x, nullptr, a, 3, 1, dt, decay);
    EXPECT_EQ(dt[0], inf);
    EXPECT_EQ(decay[0], 0);
    EXPECT_EQ(dt[1], 0);
    EXPECT_EQ(decay[1], 1);
    EXPECT_TRUE(std::isnan(dt[2]));
    EXPECT_TRUE(std::isnan(decay[2]));
  }
}

TEST(SoftplusDecay, SameBitsOnEveryIsa) {
  const std::vector<float> values = softplus_inputs();
  const std::size_t heads = 7, per_head = values.size() / heads, n = heads * per_head;
  Buffer<float> bias(n), a(n);
  fill_random(bias.data(), n, 1);
  fill_random(a.data(), n, 2);
  for (float& v : a) v = -std::abs(v);
  const auto run = [&](const KernelSet& kernels, std::size_t offset, bool decays, bool each) {
    Buffer<float> x(n, offset), decay(n, offset + 1);
    std::copy_n(values.begin(), n, x.begin());
    kernels.softplus_decay(x.data(), bias.data(), decays ? a.data() : nullptr, each ? n : heads,
                           each ? 1 : per_head, x.data(), decays ? decay.data() : nullptr);
    return std::pair(std::move(x), std::move(decay));
  };
  for (const bool decays : {false, true})
    for (const bool each : {false, true}) {
      const auto want = run(scalar_kernels(), 0, decays, each);
      for (const KernelSet* kernels : tested_kernels()) {
        const auto got = run(*kernels, 1, decays, each);
        EXPECT_EQ(got.first, want.first) << kernels->isa;
        EXPECT_EQ(got.second, want.second) << kernels->isa;
      }
    }
}

}  // namespace
}  // namespace cria
