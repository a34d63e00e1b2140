// The encoders of the codebook types: what any encoder must reach (encode_test.cpp) and, here, that
// they find what a search through everything finds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "kernels/encode/iq_entries.h"
#include "kernels/formats/iq_tables.h"
#include "kernels/simd/round.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

constexpr DType kTypes[] = {DType::IQ3_S,   DType::IQ3_XXS, DType::IQ2_S, DType::IQ2_XS,
                            DType::IQ2_XXS, DType::IQ1_S,   DType::IQ1_M};
constexpr std::size_t kValues = 256;

using Blocks = std::vector<std::byte>;

Blocks encode(const KernelSet& kernels, DType type, const std::vector<float>& x,
              const std::vector<float>& importance = {}) {
  Blocks blocks(dtype_info(type).row_bytes(x.size()));
  kernels.encode(type)(x.data(), importance.empty() ? nullptr : importance.data(), x.size(),
                       blocks.data());
  return blocks;
}
std::vector<float> decode(DType type, const Blocks& blocks) {
  std::vector<float> x(blocks.size() / dtype_info(type).block_bytes * kValues);
  dtype_info(type).dequantize(blocks.data(), x.data(), x.size());
  return x;
}
double weighted_squares(const std::vector<float>& x, const std::vector<float>& y,
                        const std::vector<float>& importance = {}) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double e = static_cast<double>(x[i]) - y[i];
    sum += (importance.empty() ? 1.0 : importance[i]) * e * e;
  }
  return sum;
}
std::vector<float> normal(std::size_t n, std::uint32_t seed, float deviation = 1) {
  std::vector<float> x(n);
  fill_random(x.data(), n, seed, deviation);
  return x;
}
std::vector<float> positive(std::size_t n, std::uint32_t seed) {
  std::vector<float> w = normal(n, seed);
  for (float& v : w) v = std::exp(v);
  return w;
}
/// A block of random bytes whose d is that f16.
Blocks random_block(DType type, std::uint32_t seed, std::uint16_t d) {
  std::mt19937 bits(seed);
  Blocks block(dtype_info(type).block_bytes);
  for (std::byte& byte : block) byte = static_cast<std::byte>(bits());
  if (type != DType::IQ1_M) {
    std::memcpy(block.data(), &d, sizeof d);
  } else {  // a nibble in each of the last four words
    for (unsigned k = 0; k < 4; ++k) {
      std::byte& high = block[block.size() - 8 + 2 * k + 1];
      high = (high & std::byte{15}) | static_cast<std::byte>((d >> (4 * k) & 15U) << 4U);
    }
  }
  return block;
}

class EncodeIq : public testing::TestWithParam<DType> {};

/// Almost: sixteen block scales are tried. If none is close to the original, a few sub-blocks get a
/// neighbouring scale. That costs a tenth or less of the types' usual error (encode_test.cpp,
/// squared).
TEST_P(EncodeIq, WhatTheTypeCanSayIsAlmostFoundAgain) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> x =
        decode(GetParam(), random_block(GetParam(), seed, f32_to_f16(0.37F)));
    const std::vector<float> y = decode(GetParam(), encode(scalar_kernels(), GetParam(), x));
    const double error =
        weighted_squares(x, y) / weighted_squares(x, std::vector<float>(kValues, 0.0F));
    EXPECT_LT(error, 2e-3) << seed;
  }
}

/// Moving one code of the block never helps: each of its bytes is tried with every value.
TEST_P(EncodeIq, NoOtherByteIsBetter) {
  // d is searched on a ladder, so d and the bytes that hold a part of it are not changed. Rounding
  // in float32 costs far less than the slack.
  const std::size_t bytes = dtype_info(GetParam()).block_bytes;
  const std::size_t first = GetParam() == DType::IQ1_M ? 0 : 2;
  const std::size_t last = GetParam() == DType::IQ1_M ? bytes - 8 : bytes;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const std::vector<float> x = normal(kValues, seed);
    const std::vector<float> w =
        seed % 2 == 0 ? std::vector<float>(kValues, 1.0F) : positive(kValues, 50 + seed);
    const Blocks found = encode(scalar_kernels(), GetParam(), x, w);
    const double least = weighted_squares(x, decode(GetParam(), found), w) * (1 - 1e-5);
    for (std::size_t i = first; i < last; ++i) {
      for (int byte = 0; byte < 256; ++byte) {
        Blocks other = found;
        other[i] = static_cast<std::byte>(byte);
        ASSERT_GE(weighted_squares(x, decode(GetParam(), other), w), least) << i << ' ' << byte;
      }
    }
  }
}

TEST_P(EncodeIq, NeighbouringScalesAreHardlyBetter) {
  // The ladder of block scales is finer than what matters: the best of all
  // f16 near the one found, with the same codes.
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const std::vector<float> x = normal(kValues, 90 + seed);
    const Blocks found = encode(scalar_kernels(), GetParam(), x);
    const std::vector<float> y = decode(GetParam(), found);
    double xy = 0, yy = 0, xx = 0;
    for (std::size_t i = 0; i < kValues; ++i) {
      xy += static_cast<double>(x[i]) * y[i];
      yy += static_cast<double>(y[i]) * y[i];
      xx += static_cast<double>(x[i]) * x[i];
    }
    EXPECT_LT(weighted_squares(x, y), (xx - xy * xy / yy) * 1.003);
  }
}

TEST_P(EncodeIq, SameBitsOnEveryIsa) {
  std::vector<float> x = normal(8 * kValues, 3, 0.02F), w = positive(x.size(), 4);
  for (std::size_t i = 0; i < kValues; ++i) x[i] = i % 5 == 0 ? 0 : x[i];  // zeros have any sign
  for (std::size_t i = kValues; i < 2 * kValues; ++i)
    x[i] = i % 2 == 0 ? 1 : -1;  // ties everywhere
  for (std::size_t i = 2 * kValues; i < 3 * kValues; ++i)
    x[i] *= i % 32 < 8 ? 50 : 1;  // unlike groups
  for (std::size_t i = 3 * kValues; i < 4 * kValues; ++i) w[i] = i % 8 < 6 ? 0 : w[i];
  for (const KernelSet* set : available_kernels()) {
    EXPECT_EQ(encode(*set, GetParam(), x), encode(scalar_kernels(), GetParam(), x)) << set->isa;
    EXPECT_EQ(encode(*set, GetParam(), x, w), encode(scalar_kernels(), GetParam(), x, w))
        << set->isa;
  }
}

TEST_P(EncodeIq, SizeOfValuesAndImportanceDoesNotMatter) {
  const std::vector<float> x = normal(2 * kValues, 6), w = positive(x.size(), 7);
  const std::vector<float> y = decode(GetParam(), encode(scalar_kernels(), GetParam(), x, w));
  std::vector<float> x8 = x, w8 = w;
  for (float& v : x8) v *= 8;
  for (float& v : w8) v *= 0x1p40F;
  const std::vector<float> y8 = decode(GetParam(), encode(scalar_kernels(), GetParam(), x8, w8));
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(8 * y[i], y8[i]) << i;
}

TEST_P(EncodeIq, ValuesWithoutImportanceKeepTheirSign) {
  // All but one group without importance: what is left is still encoded with sense.
  const std::vector<float> x = normal(kValues, 8);
  std::vector<float> w(kValues, 0.0F);
  std::fill(w.begin(), w.begin() + 32, 1.0F);
  const std::vector<float> y = decode(GetParam(), encode(scalar_kernels(), GetParam(), x, w));
  const std::vector<float> none(kValues, 0.0F);
  EXPECT_LT(weighted_squares(x, y), 0.5 * weighted_squares(x, none));
  EXPECT_LT(weighted_squares(x, y, w), 0.5 * weighted_squares(x, none, w));
}

INSTANTIATE_TEST_SUITE_P(Types, EncodeIq, testing::ValuesIn(kTypes),
                         [](const auto& type) { return std::string(name(type.param)); });

std::vector<std::uint16_t> numbered(std::size_t n) {
  std::vector<std::uint16_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), std::uint16_t{0});
  return numbers;
}

/// For any scale of the ladder's range the vertices hold the best of all points, found by looking
/// at all.
TEST(EntryHull, HoldsTheBestPointForEveryScale) {
  const auto finder = std::make_unique<HullFinder<ScalarIsa>>();
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    const std::size_t n = std::size_t{128} << seed % 5;
    Buffer<float> p(n), q(n);
    fill_random(p.data(), n, seed);
    fill_random(q.data(), n, 100 + seed);
    for (std::size_t e = 0; e < n; ++e) {
      if (seed % 3 == 0) p[e] = std::round(2 * p[e]);  // many equal
      q[e] = p[e] * p[e] + std::abs(q[e]);             // the scale of interest is around 1
    }
    EntryHull hull;
    finder->find({p.data(), q.data(), numbered(n).data(), n}, 1.0F, hull);
    ASSERT_LT(hull.n, EntryHull::kMost);
    for (float c = kHullLadder.back(); c < kHullLadder.front(); c *= 1.02F) {
      float best = -std::numeric_limits<float>::infinity(), gain = 0;
      for (std::size_t e = 0; e < n; ++e) best = std::max(best, std::fma(-c, q[e], 2 * p[e]));
      const std::size_t k = best_vertex<ScalarIsa>(hull, -c, gain);
      EXPECT_NEAR(gain, best, 1e-5 * (1 + std::abs(best))) << seed << ' ' << c;
      EXPECT_EQ(hull.p2[k], 2 * p[hull.entry[k]]);
      EXPECT_EQ(hull.q[k], q[hull.entry[k]]);
    }
  }
}

TEST(EntryHull, OfPointsWithoutValueIsTheSmallest) {
  Buffer<float> p(128), q(128);
  std::fill(p.begin(), p.end(), 0.0F);
  for (std::size_t e = 0; e < 128; ++e) q[e] = e == 77 ? 1.0F : 2.0F;
  EntryHull hull;
  std::make_unique<HullFinder<ScalarIsa>>()->find({p.data(), q.data(), numbered(128).data(), 128},
                                                  1e-6F, hull);
  ASSERT_EQ(hull.n, 1U);
  EXPECT_EQ(hull.entry[0], 77);
}

/// Pruning loses nothing: every scale's best entry of all 2048, 1024 or 512 is found.
template <class Grid>
void expect_best_entries(const Grid& grid, const EncoderBook& book, bool flip, float typical) {
  constexpr std::size_t kDims = sizeof(grid[0]);
  const auto finder = std::make_unique<HullFinder<ScalarIsa>>();
  const auto plain = std::make_unique<EntrySearch<ScalarIsa, kDims / 2, true, false, false>>();
  const auto flipped = std::make_unique<EntrySearch<ScalarIsa, kDims / 2, true, true, false>>();
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    std::vector<float> wx = normal(kDims, seed), w = positive(kDims, 30 + seed);
    for (std::size_t i = 0; i < kDims; ++i) wx[i] = w[i] * std::abs(wx[i]);
    const IqGroup group{w.data(), wx.data(), 1 / typical, 0};
    EntryHull hull;
    if (flip)
      flipped->find(book, group, *finder, hull);
    else
      plain->find(book, group, *finder, hull);
    for (const float times : kHullLadder) {
      const float c = times / typical;
      double best = -1e30;
      for (const auto entry : grid) {
        double p = 0, q = 0, least = 1e30;
        for (std::size_t i = 0; i < kDims; ++i) {
          const double v = static_cast<std::int8_t>(entry >> (8 * i) & 255);
          p += v * wx[i];
          q += v * v * w[i];
          least = std::min(least, v * wx[i]);
        }
        best = std::max(best, 2 * (flip ? p - 2 * least : p) - c * q);
      }
      float gain = 0;
      best_vertex<ScalarIsa>(hull, -c, gain);
      EXPECT_NEAR(gain, best, 1e-4 * std::abs(best) + 1e-3) << seed << ' ' << times;
    }
  }
}

TEST(EntrySearch, FindsTheBestOfTheCodebook) {
  for (const bool flip : {false, true}) {
    expect_best_entries(kIq2xxsGrid, iq2_xxs_book(), flip, 21);
    expect_best_entries(kIq2xsGrid, iq2_xs_book(), flip, 21);
    expect_best_entries(kIq2sGrid, iq2_s_book(), flip, 21);
    expect_best_entries(kIq3xxsGrid, iq3_xxs_book(), flip, 25);
    expect_best_entries(kIq3sGrid, iq3_s_book(), flip, 6);
  }
  expect_best_entries(kIq1Grid, iq1_book(), false, 6);
}

}  // namespace
}  // namespace cria
