// Encoders over families of rows: for none may a super-block come out worse than what its format
// does in the plainest way, or than nothing but zeros. Searches may fail on values that random
// weights do not have.
#include <cmath>
#include <numbers>
#include <string>

#include "kernels/formats/formats.h"
#include "kernels/simd/round.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

constexpr std::size_t kSuper = 256;  // values of a super-block

struct Values {
  std::string family;
  bool tiny;  // scales have a few bits or are zero
  float x[kSuper];
};

/// Numbers of one distribution, repeatable.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  float uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(engine_()) * 0x1p-32F;
  }
  float normal() {
    float sum = 0;
    for (int i = 0; i < 12; ++i) sum += uniform(-0.5F, 0.5F);
    return sum;
  }

 private:
  std::mt19937 engine_;
};

/// A kind of values: fills n of them, all of magnitude about 1.
constexpr int kRunShapes = 8;
constexpr const char* kRunNames[kRunShapes] = {"constant", "narrow", "wide", "ramp",
                                               "wave",     "steps",  "walk", "normal"};
void fill_shape(int shape, float* x, std::size_t n, Random& random) {
  const float sign = random.uniform(-1, 1) < 0 ? -1.0F : 1.0F,
              size = sign * random.uniform(0.7F, 1.4F);
  const float slope = random.uniform(-2, 2) / static_cast<float>(n);
  float at = size;
  for (std::size_t i = 0; i < n; ++i) {
    const auto k = static_cast<float>(i);
    if (shape == 0) x[i] = size;
    if (shape == 1) x[i] = size * (1 + random.uniform(-0.08F, 0.08F));
    if (shape == 2) x[i] = size * (1 + random.uniform(-0.4F, 0.4F));
    if (shape == 3) x[i] = size + slope * k;
    if (shape == 4)
      x[i] = size * std::sin(k * 2 * std::numbers::pi_v<float> / static_cast<float>(n));
    if (shape == 5) x[i] = size * static_cast<float>(i / 8 % 4);
    if (shape == 6) x[i] = at += 0.01F * random.normal();
    if (shape == 7) x[i] = random.normal();
  }
}

/// Super-blocks of every shape, in runs of several lengths, mixtures, and both at many scales.
std::vector<Values> all_families() {
  Random random(1);
  std::vector<Values> all;
  const auto add = [&](std::string family, bool tiny = false) -> Values& {
    return all.emplace_back(Values{std::move(family), tiny, {}});
  };
  for (int shape = 0; shape < kRunShapes; ++shape)
    for (const std::size_t run : {std::size_t{16}, std::size_t{32}, std::size_t{64}, kSuper}) {
      for (int again = 0; again < 3; ++again) {
        Values& v = add(std::string(kRunNames[shape]) + " by " + std::to_string(run));
        for (std::size_t i = 0; i < kSuper; i += run) fill_shape(shape, v.x + i, run, random);
      }
    }
  for (const float sign : {1.0F, -1.0F})  // the first of eight sub-blocks alone has one sign
    for (const float spread : {0.0F, 0.05F, 0.17F, 0.35F}) {
      Values& v = add("one of " + std::to_string(sign) + " ± " + std::to_string(spread));
      for (std::size_t i = 0; i < kSuper; ++i)
        v.x[i] = i < 32 ? sign * 0.1F * (1 + random.uniform(-spread, spread)) : sign * -0.2F;
    }
  for (int again = 0; again < 24; ++again) {
    Values& v = add("mixture " + std::to_string(again));
    for (std::size_t i = 0; i < kSuper; i += 32)
      fill_shape(static_cast<int>(random.uniform(0, kRunShapes)), v.x + i, 32, random);
  }
  for (int again = 0; again < 24; ++again) {
    Values& v = add("mixture of sizes " + std::to_string(again));
    for (std::size_t i = 0; i < kSuper; i += 32) {
      fill_shape(static_cast<int>(random.uniform(0, kRunShapes)), v.x + i, 32, random);
      const float size = std::exp2(random.uniform(-6, 0));
      for (std::size_t k = i; k < i + 32; ++k) v.x[k] *= size;
    }
  }
  for (int exponent = -34; exponent <= 12; exponent += 2)
    for (const int shape : {0, 3, 7}) {
      Values& v =
          add(std::string(kRunNames[shape]) + " at 2^" + std::to_string(exponent), exponent < -8);
      for (std::size_t i = 0; i < kSuper; i += 32) fill_shape(shape, v.x + i, 32, random);
      for (float& x : v.x) x = std::ldexp(x, exponent);
    }
  return all;
}

/// Importance: none, of one size, with columns that count for all but nothing, with one that counts
/// for all.
constexpr int kImportances = 4;
std::vector<float> importance_of(int kind) {
  if (kind == 0) return {};
  Random random(7);
  std::vector<float> w(kSuper);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const float x = random.normal();
    w[i] = x * x;
    if (kind == 2 && i % 3 == 0) w[i] = 0;
    if (kind == 3) w[i] *= i == 37 ? 1e6F : 1.0F;
  }
  return w;
}

double weight(const std::vector<float>& w, std::size_t i) { return w.empty() ? 1 : w[i]; }

/// Σw(x - y)²
double error_of(const float* x, const float* y, const std::vector<float>& w) {
  double sum = 0;
  for (std::size_t i = 0; i < kSuper; ++i)
    sum += weight(w, i) * std::pow(static_cast<double>(x[i]) - y[i], 2);
  return sum;
}

double encoder_error(DType type, const float* x, const std::vector<float>& w) {
  Buffer<std::byte> blocks(dtype_info(type).row_bytes(kSuper));
  available_kernels().front()->encode(type)(x, w.empty() ? nullptr : w.data(), kSuper,
                                            blocks.data());
  float y[kSuper];
  dtype_info(type).dequantize(blocks.data(), y, kSuper);
  return error_of(x, y, w);
}

// ---- the plain way

/// The nearest f16, but 0 for nothing else: such a scale is useless.
double scale_f16(double x) {
  const double half = f16_to_f32(f32_to_f16(static_cast<float>(std::clamp(x, -65504.0, 65504.0))));
  return half == 0 && x != 0 ? std::copysign(0x1p-24, x) : half;
}

double scale_f32(double x) { return static_cast<float>(x); }
/// Half of a power of two that leaves no value beyond the grid.
double scale_e8m0(double x) { return x == 0 ? 0 : std::exp2(std::ceil(std::log2(std::abs(x)))); }
double scale_ue4m3(double x) {
  std::size_t byte = 1;
  while (byte < kLargestUe4m3 && kHalfOfUe4m3[byte] < std::abs(x)) ++byte;
  return kHalfOfUe4m3[byte];
}

/// The values before a scale.
struct Grid {
  std::vector<double> values;
  [[nodiscard]] double nearest(double x) const {
    const auto less = [&](double a, double b) { return std::abs(a - x) < std::abs(b - x); };
    return *std::min_element(values.begin(), values.end(), less);
  }
};
Grid integers(int low, int high) {
  Grid grid;
  for (int i = low; i <= high; ++i) grid.values.push_back(i);
  return grid;
}

/// The form of a type's values. Blocks of n: scale·value, or scale·value + offset if affine.
/// s_most: the scale is d·s, s <= s_most, and `stored` rounds d to the format; 0: it rounds the
/// scale.
struct Plain {
  DType type;
  std::size_t n;
  Grid grid;
  bool affine;
  int s_most;
  double (*stored)(double) = scale_f16;
};

/// Scale and offset of one block that spread the grid over its values; `end`: where the largest
/// magnitude goes.
struct Fit {
  double scale, offset;
};
Fit plain_fit(const Plain& plain, const double* x, double end) {
  const auto [low, high] = std::minmax_element(x, x + plain.n);
  if (!plain.affine) return {(-*low > *high ? *low : *high) / end, 0};
  const double offset = plain.s_most == 0 ? *low : std::min(*low, 0.0);
  return {(*high - offset) / plain.grid.values.back(), offset};
}

/// Stored as the format stores them.
void round_fits(const Plain& plain, std::vector<Fit>& fits) {
  double scale = 0, offset = 0;
  for (const Fit& fit : fits) {
    if (std::abs(fit.scale) > std::abs(scale)) scale = fit.scale;
    offset = std::min(fit.offset, offset);
  }
  const double d = plain.stored(scale / plain.s_most), dmin = plain.stored(-offset / plain.s_most);
  for (Fit& fit : fits) {
    if (plain.s_most == 0) {
      fit = {plain.stored(fit.scale), plain.affine ? plain.stored(fit.offset) : 0};
    } else {
      const double most = plain.s_most;
      fit.scale = d == 0 ? 0 : d * std::clamp(std::nearbyint(fit.scale / d), -most, most);
      fit.offset =
          dmin == 0 ? 0 : -dmin * std::clamp(std::nearbyint(-fit.offset / dmin), 0.0, most);
    }
  }
}

double plain_error(const Plain& plain, const float* values, const std::vector<float>& w,
                   double sign, double end) {
  double x[kSuper];
  for (std::size_t i = 0; i < kSuper; ++i) x[i] = sign * values[i];
  std::vector<Fit> fits;
  for (std::size_t i = 0; i < kSuper; i += plain.n) fits.push_back(plain_fit(plain, x + i, end));
  round_fits(plain, fits);
  double sum = 0;
  for (std::size_t i = 0; i < kSuper; ++i) {
    const Fit& fit = fits[i / plain.n];
    const double q = fit.scale == 0 ? 0 : plain.grid.nearest((x[i] - fit.offset) / fit.scale);
    sum += weight(w, i) * std::pow(x[i] - fit.scale * q - fit.offset, 2);
  }
  return sum;
}

/// Same rule as in the encoders: values that lie mostly above 0 are encoded as their negatives,
/// because offsets are not positive.
double sign_of(const Plain& plain, const float* x) {
  double above = 0, below = 0;
  for (const float* block = x; block != x + kSuper; block += plain.n) {
    const auto [low, high] = std::minmax_element(block, block + plain.n);
    above += std::max(*low, 0.0F);
    below += std::max(-*high, 0.0F);
  }
  return plain.affine && plain.s_most != 0 && below < above ? -1 : 1;
}

/// The better of the plain ways, and of zeros.
double plain_error(const Plain& plain, const float* x, const std::vector<float>& w) {
  const float zeros[kSuper] = {};
  double best = error_of(x, zeros, w);
  for (const double end : {plain.grid.values.front(), plain.grid.values.back()})
    if (end != 0) best = std::min(best, plain_error(plain, x, w, sign_of(plain, x), end));
  return best;
}

/// Extra error by rounding, as Σw e²: d and dmin to f16, twice 2^-12; s, half a step.
double slack_of(const Plain& plain, const float* x, const std::vector<float>& w) {
  double peak = 0, sum = 0;
  for (std::size_t i = 0; i < kSuper; ++i) {
    peak = std::max(peak, std::abs(static_cast<double>(x[i])));
    sum += weight(w, i);
  }
  return sum * std::pow(peak * (0x1p-11 + (plain.s_most == 0 ? 0 : 0.5 / plain.s_most)), 2);
}

Grid iq4_grid() { return {{kIq4Values.begin(), kIq4Values.end()}}; }
template <class Block>
Grid table_grid() {
  return {{Block::kValues.begin(), Block::kValues.end()}};
}
Grid e2m1_grid() { return {{kTwiceE2m1.begin(), kTwiceE2m1.end()}}; }

std::vector<Plain> plain_types() {
  return {{DType::Q4_0, 32, integers(-8, 7), false, 0},
          {DType::Q5_0, 32, integers(-16, 15), false, 0},
          {DType::Q6_0, 32, integers(-32, 31), false, 0},
          {DType::Q8_0, 32, integers(-128, 127), false, 0},
          {DType::IQ4_NL, 32, iq4_grid(), false, 0},
          {DType::Q4_1, 32, integers(0, 15), true, 0},
          {DType::Q5_1, 32, integers(0, 31), true, 0},
          {DType::Q2_K, 16, integers(0, 3), true, 15},
          {DType::Q4_K, 32, integers(0, 15), true, 63},
          {DType::Q5_K, 32, integers(0, 31), true, 63},
          {DType::Q3_K, 16, integers(-4, 3), false, 31},
          {DType::Q6_K, 16, integers(-32, 31), false, 127},
          {DType::IQ4_XS, 32, iq4_grid(), false, 31},
          {DType::IQ4_KS, 32, iq4_grid(), false, 63, scale_f32},  // odd s up to 127
          {DType::IQ2_K, 16, table_grid<BlockIQ2_K>(), false, 7},
          {DType::IQ3_K, 16, table_grid<BlockIQ3_K>(), false, 15},  // odd s up to 31
          {DType::IQ4_K, 16, table_grid<BlockIQ4_K>(), false, 31},
          {DType::IQ5_K, 16, table_grid<BlockIQ5_K>(), false, 31},
          {DType::IQ6_K, 16, table_grid<BlockIQ6_K>(), false, 127},
          {DType::IQ5_KS, 32, table_grid<BlockIQ5_KS>(), false, 63, scale_f32},
          {DType::IQ2_KS, 32, table_grid<BlockIQ2_KS>(), false, 15},
          {DType::IQ3_KS, 32, table_grid<BlockIQ3_KS>(), false, 15},
          {DType::TQ1_0, 256, integers(-1, 1), false, 0},
          {DType::TQ2_0, 256, integers(-1, 1), false, 0},
          {DType::Q1_0, 128, Grid{{-1, 1}}, false, 0},
          {DType::MXFP4, 32, e2m1_grid(), false, 0, scale_e8m0},
          {DType::NVFP4, 16, e2m1_grid(), false, 0, scale_ue4m3}};
}

/// Calls what(family, kind of importance, weights) for all of them.
template <class What>
void each_family(What what) {
  const std::vector<Values> families = all_families();
  for (int kind = 0; kind < kImportances; ++kind) {
    const std::vector<float> w = importance_of(kind);
    for (const Values& v : families) what(v, kind, w);
  }
}

TEST(EncodeFamilies, NoSuperBlockIsWorseThanThePlainWay) {
  const std::vector<Plain> all = plain_types();
  each_family([&](const Values& v, int kind, const std::vector<float>& w) {
    const float zeros[kSuper] = {};
    const double whole = std::sqrt(error_of(v.x, zeros, w));
    for (const Plain& plain : all) {
      // 5 %: how a scale happens to round. Tiny ones are numbers of few bits, and how well one
      // value that counts alone is met is luck then.
      double bound =
          v.tiny && kind == kImportances - 1 ? whole : std::sqrt(plain_error(plain, v.x, w));
      bound = (v.tiny ? 2 : 1.05) * bound + std::sqrt(slack_of(plain, v.x, w));
      EXPECT_LE(std::sqrt(encoder_error(plain.type, v.x, w)), std::min(bound, whole * (1 + 1e-6)))
          << name(plain.type) << ", " << v.family << ", importance " << kind;
    }
  });
}

/// All of them as one row: the ways for what is rare are taken by some lanes and not by others.
TEST(EncodeFamilies, SameBytesOnEveryIsa) {
  const std::vector<Values> families = all_families();
  Buffer<float> x(families.size() * kSuper), w(x.size());
  for (std::size_t i = 0; i < families.size(); ++i) {
    const std::vector<float> some = importance_of(1 + static_cast<int>(i % (kImportances - 1)));
    std::copy_n(families[i].x, kSuper, x.begin() + i * kSuper);
    std::copy_n(some.begin(), kSuper, w.begin() + i * kSuper);
  }
  for (const Plain& plain : plain_types()) {
    const DType type = plain.type;
    for (const float* importance :
         {static_cast<const float*>(nullptr), static_cast<const float*>(w.data())}) {
      const auto encoded = [&](const KernelSet& set) {
        Buffer<std::byte> row(dtype_info(type).row_bytes(x.size()));
        set.encode(type)(x.data(), importance, x.size(), row.data());
        return row;
      };
      const Buffer<std::byte> expected = encoded(scalar_kernels());
      for (const KernelSet* set : tested_kernels())
        EXPECT_TRUE(encoded(*set) == expected)
            << set->isa << ' ' << name(type) << (importance != nullptr);
    }
  }
}

// And tables whose codes depend on one another.
TEST(EncodeFamilies, CodebooksAreWorthWhileForAll) {
  // Relative to the root mean square; measured, with 2 % to spare.
  const std::map<DType, double> bounds = {
      {DType::IQ3_S, 0.187},  {DType::IQ3_XXS, 0.183}, {DType::IQ2_S, 0.260},
      {DType::IQ2_XS, 0.299}, {DType::IQ2_XXS, 0.458}, {DType::IQ1_S, 0.478},
      {DType::IQ1_M, 0.443},  {DType::IQ2_KL, 0.30},   {DType::IQ4_KSS, 0.15}};
  each_family([&](const Values& v, int kind, const std::vector<float>& w) {
    const float zeros[kSuper] = {};
    const double whole = std::sqrt(error_of(v.x, zeros, w));
    for (const auto& [type, bound] : bounds) {
      const bool any = v.tiny || kind == kImportances - 1;  // no more than that zeros are not worse
      EXPECT_LE(std::sqrt(encoder_error(type, v.x, w)), (any ? 1 : bound) * whole)
          << name(type) << ", " << v.family << ", importance " << kind;
    }
  });
}

}  // namespace
}  // namespace cria
