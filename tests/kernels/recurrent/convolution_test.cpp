// Causal convolution: the scalar kernel against its definition, every instruction set and every
// division of rows and channels against the scalar kernel in one call.
#include <cmath>

#include "kernels/recurrent/recurrent.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

struct ConvolutionCase {
  std::size_t channels, taps;
  bool bias, silu, factors;
};

constexpr ConvolutionCase kConvolutions[] = {
    {1050, 4, false, true, false}, {129, 4, true, true, false}, {48, 3, false, false, true},
    {7, 1, true, false, true},     {1, 2, false, true, false},  {144, 32, true, false, false},
};

/// A sequence whose rows are given to a kernel in pieces.
class ConvolutionSequence {
 public:
  ConvolutionSequence(const KernelSet& kernels, const ConvolutionCase& c, std::size_t rows,
                      std::size_t rollback = 0, std::size_t offset = 0)
      : x(rows * (3 * c.channels + 1), offset),
        weights(c.channels * c.taps, offset + 1),
        bias(c.channels, offset),
        out(rows * (c.channels + 5), offset + 2),
        kernels_(kernels),
        case_(c),
        memory_(ConvolutionShape{c.channels, c.taps, rollback}.floats()) {
    fill_random(x.data(), x.size(), 1);
    fill_random(weights.data(), weights.size(), 2);
    fill_random(bias.data(), bias.size(), 3);
    for (float& v : out) v = 0;
    for (float& v : memory_) v = NAN;  // kernels must not read what they have not written
    job_.shape = {c.channels, c.taps, rollback};
    job_.memory = memory_.data();
    job_.x_stride = 3 * c.channels + 1;
    job_.out_stride = c.channels + 5;
    job_.weights = weights.data();
    if (c.bias) job_.bias = bias.data();
    job_.silu = c.silu;
  }
  /// Rows [first, first + n); from: other rows in their place.
  void run(std::size_t first, std::size_t n, std::size_t from) {
    job_.first_pos = first;
    job_.n_rows = n;
    job_.x = x.data() + from * job_.x_stride;
    if (case_.factors) {
      job_.factor = job_.x + case_.channels;
      job_.out_factor = job_.factor + case_.channels;
    }
    job_.out = out.data() + first * job_.out_stride;
    const std::size_t half = case_.channels / 2;
    kernels_.convolution(job_, half, case_.channels);
    kernels_.convolution(job_, 0, half);
  }
  void run(std::size_t first, std::size_t n) { run(first, n, first); }
  /// Output of a channel by the definition.
  [[nodiscard]] float defined(std::size_t t, std::size_t channel) const {
    const float* const w = weights.data() + channel * case_.taps;
    float y = 0;
    for (std::size_t tap = 0; tap < case_.taps; ++tap) {
      float input = 0;
      if (t + tap + 1 >= case_.taps) {
        const float* const at = x.data() + (t + tap + 1 - case_.taps) * job_.x_stride + channel;
        input = case_.factors ? at[0] * at[case_.channels] : at[0];
      }
      y = tap > 0 || case_.bias ? std::fma(w[tap], input, tap > 0 ? y : bias[channel])
                                : w[tap] * input;
    }
    if (case_.silu) scalar_kernels().activate({ActivationKind::Silu}, &y, nullptr, 1);
    return case_.factors ? y * x[t * job_.x_stride + 2 * case_.channels + channel] : y;
  }
  [[nodiscard]] std::size_t out_stride() const { return job_.out_stride; }
  void snapshot_to(ConvolutionSequence& other) const {
    std::copy_n(memory_.data() + job_.shape.snapshot_offset(), job_.shape.snapshot_floats(),
                other.memory_.data() + other.job_.shape.snapshot_offset());
  }

  Buffer<float> x, weights, bias, out;

 private:
  const KernelSet& kernels_;
  ConvolutionCase case_;
  Buffer<float> memory_;
  ConvolutionJob job_{};
};

TEST(Convolution, FollowsItsDefinition) {
  for (const ConvolutionCase& c : kConvolutions) {
    ConvolutionSequence sequence(scalar_kernels(), c, 70);
    sequence.run(0, 70);
    for (std::size_t t = 0; t < 70; ++t)
      for (std::size_t channel = 0; channel < c.channels; ++channel)
        ASSERT_EQ(sequence.out[t * sequence.out_stride() + channel], sequence.defined(t, channel))
            << c.channels << " channels, row " << t << ", channel " << channel;
  }
}

TEST(Convolution, SameBitsForAnyPieces) {
  for (const ConvolutionCase& c : kConvolutions) {
    ConvolutionSequence whole(scalar_kernels(), c, 131);
    whole.run(0, 131);
    for (const KernelSet* kernels : tested_kernels())
      for (const std::size_t piece : {1, 7, 16, 64, 131}) {
        ConvolutionSequence sequence(*kernels, c, 131, piece % 2, piece % 5);
        for (std::size_t at = 0; at < 131; at += piece)
          sequence.run(at, std::min<std::size_t>(piece, 131 - at));
        EXPECT_EQ(sequence.out, whole.out)
            << kernels->isa << ", " << c.channels << " channels, pieces of " << piece;
      }
  }
}

TEST(Convolution, DropsRows) {
  for (const ConvolutionCase& c : kConvolutions) {
    ConvolutionSequence whole(scalar_kernels(), c, 150);
    whole.run(0, 150);
    for (const KernelSet* kernels : tested_kernels()) {
      ConvolutionSequence sequence(*kernels, c, 150, kMaxRollback);
      std::mt19937 random(5);
      for (std::size_t at = 0; at < 150;) {
        const std::size_t right = std::min<std::size_t>(1 + random() % 4, 150 - at),
                          wrong = std::min(random() % (kMaxRollback + 1), 150 - at - right);
        sequence.run(at, right);
        at += right;
        if (wrong > 0) sequence.run(at, wrong, (at * 7 + 11) % (150 - kMaxRollback));
      }
      EXPECT_EQ(sequence.out, whole.out) << kernels->isa << ", " << c.channels << " channels";
    }
  }
}

TEST(Convolution, ResumesFromASnapshot) {
  for (const ConvolutionCase& c : kConvolutions) {
    ConvolutionSequence whole(scalar_kernels(), c, 100);
    whole.run(0, 100);
    for (const std::size_t rollback : {std::size_t{0}, kMaxRollback}) {
      ConvolutionSequence first(scalar_kernels(), c, 100, rollback),
          second(scalar_kernels(), c, 100, rollback);
      first.run(0, 64);
      first.snapshot_to(second);
      second.run(64, 36);
      const std::size_t done = 64 * whole.out_stride();
      EXPECT_TRUE(std::equal(second.out.begin() + done, second.out.end(), whole.out.begin() + done))
          << c.channels << " channels";
    }
  }
}

TEST(Convolution, WorksInPlace) {
  for (const KernelSet* kernels : tested_kernels()) {
    Buffer<float> x(50 * 40), weights(40 * 4), out(x.size()), memory(4 * 40);
    fill_random(x.data(), x.size(), 1);
    fill_random(weights.data(), weights.size(), 2);
    ConvolutionJob job{.shape = {40, 4},
                       .memory = memory.data(),
                       .first_pos = 0,
                       .n_rows = 50,
                       .x = x.data(),
                       .x_stride = 40,
                       .weights = weights.data(),
                       .silu = true,
                       .out = out.data(),
                       .out_stride = 40};
    kernels->convolution(job, 0, 40);
    job.out = x.data();
    kernels->convolution(job, 0, 40);
    EXPECT_EQ(x, out) << kernels->isa;
  }
}

}  // namespace
}  // namespace cria
