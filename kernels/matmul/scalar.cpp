#include "kernels/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/formats/formats.h"
#include "kernels/simd/f32x16.h"
#include "kernels/simd/float_mode.h"

namespace cria {
namespace {

constexpr std::size_t kTokens = 16;  // tokens per decoding of a row

// Every dot_* computes acc[t] = row · token t of x, for tokens [first, first + n), n <= kTokens.

int dot_int8(const std::int8_t* w, const std::int8_t* a, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += w[i] * a[i];
  return sum;
}

// A float per group of 16 or 32, groups in order.
template <DType type>
void dot_groups(const std::byte* row, const Activations& x, std::size_t first, std::size_t n,
                float* acc) {
  constexpr std::size_t kValues = Format<type>::kGroupValues;
  constexpr bool kHasMin = Format<type>::kTraits.has_min;
  std::fill_n(acc, n, 0.0F);
  DecodedGroup<kValues> w;
  for (std::size_t b = 0; b < x.cols / kValues; ++b) {
    decode_group<type>(row, b, w);
    for (std::size_t t = 0; t < n; ++t) {
      const float d = x.d[(first + t) * x.d_stride() + b];
      const int sum = x.sum[(first + t) * x.sum_stride() + b];
      const int isum = dot_int8(w.q, x.q + (first + t) * x.q_stride() + b * kValues, kValues);
      acc[t] = std::fma(w.d * d, static_cast<float>(isum), acc[t]);
      if (kHasMin) acc[t] = std::fma(w.m, d * static_cast<float>(sum), acc[t]);
    }
  }
}

// Sub-blocks are summed in integers: floats only per block of 256, blocks in order.
template <DType type>
void dot_super256(const std::byte* row, const Activations& x, std::size_t first, std::size_t n,
                  float* acc) {
  constexpr bool kHasMin = Format<type>::kTraits.has_min;
  std::fill_n(acc, n, 0.0F);
  Decoded256 w;
  for (std::size_t b = 0; b < x.cols / 256; ++b) {
    decode_group<type>(row, b, w);
    for (std::size_t t = 0; t < n; ++t) {
      const std::int8_t* q = x.q + (first + t) * x.q_stride() + b * 256;
      const std::int16_t* sum = x.sum + (first + t) * x.sum_stride() + b * 16;
      const float d = x.d[(first + t) * x.d_stride() + b];
      int isum = 0, imin = 0;
      for (int j = 0; j < 16; ++j) {
        isum += w.scale[j] * dot_int8(w.q + j * 16, q + j * 16, 16);
        imin += w.min[j] * sum[j];
      }
      acc[t] = std::fma(w.d * d, static_cast<float>(isum), acc[t]);
      if (kHasMin) acc[t] = std::fma(-(w.dmin * d), static_cast<float>(imin), acc[t]);
    }
  }
}

// l[i] += l[i+8], then l[i+4], l[i+2], l[i+1].
float sum_lanes(float (&lane)[kFloatLanes]) {
  for (std::size_t half = kFloatLanes / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  }
  return lane[0];
}

// F32, F16: 16 lanes along the row, zeros after its end, then a tree.
template <DType type>
void dot_float(const std::byte* row, const Activations& x, std::size_t first, std::size_t n,
               float* acc) {
  constexpr std::size_t kLanes = kFloatLanes;
  float lane[kTokens][kLanes] = {};
  for (std::size_t i = 0; i < x.cols; i += kLanes) {
    const std::size_t count = std::min(kLanes, x.cols - i);
    float w[kLanes] = {};
    Format<type>::dequantize(row + i * sizeof(typename Format<type>::Block), w, count);
    for (std::size_t t = 0; t < n; ++t) {
      float values[kLanes] = {};
      std::copy_n(x.f32 + (first + t) * x.f32_stride + i, count, values);
      for (std::size_t l = 0; l < kLanes; ++l) lane[t][l] = std::fma(w[l], values[l], lane[t][l]);
    }
  }
  for (std::size_t t = 0; t < n; ++t) acc[t] = sum_lanes(lane[t]);
}

float load_bf16(const void* p, std::size_t i) {
  std::uint16_t bits;
  std::memcpy(&bits, static_cast<const std::byte*>(p) + 2 * i, sizeof bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// BF16: lane l takes columns 2l + 1 and 2l of every 32, in this order.
void dot_bf16(const std::byte* row, const Activations& x, std::size_t first, std::size_t n,
              float* acc) {
  for (std::size_t t = 0; t < n; ++t) {
    const std::int8_t* const values = x.q + (first + t) * x.q_stride();
    float lane[kFloatLanes] = {};
    for (std::size_t i = 0; i < x.cols; i += 2 * kFloatLanes) {
      for (std::size_t l = 0; l < kFloatLanes; ++l) {
        for (const std::size_t col : {i + 2 * l + 1, i + 2 * l}) {
          const bool inside = col < x.cols;
          lane[l] = std::fma(inside ? load_bf16(row, col) : 0, inside ? load_bf16(values, col) : 0,
                             lane[l]);
        }
      }
    }
    acc[t] = sum_lanes(lane);
  }
}

template <DType type>
void dot(const std::byte* row, const Activations& x, std::size_t first, std::size_t n, float* acc) {
  constexpr DotClass kClass = Format<type>::kClass;
  if constexpr (kClass == DotClass::Float) dot_float<type>(row, x, first, n, acc);
  if constexpr (kClass == DotClass::FloatPairs) dot_bf16(row, x, first, n, acc);
  if constexpr (kClass == DotClass::Blocks16 || kClass == DotClass::Blocks32)
    dot_groups<type>(row, x, first, n, acc);
  if constexpr (kClass == DotClass::Super256) dot_super256<type>(row, x, first, n, acc);
}

template <DType type>
void run(const MatMulJob& job, std::size_t row_begin, std::size_t row_end, std::byte* /*scratch*/) {
  float acc[kTokens];
  for (std::size_t first = 0; first < job.x->n_tokens; first += kTokens) {
    const std::size_t n = std::min(kTokens, job.x->n_tokens - first);
    for (std::size_t r = row_begin; r < row_end; ++r) {
      dot<type>(job.weights + r * job.row_bytes, *job.x, first, n, acc);
      for (std::size_t t = 0; t < n; ++t) {
        const std::size_t at = (first + t) * job.out_stride + r;
        job.out[at] = job.residual ? job.residual[at] + acc[t] : acc[t];
      }
    }
  }
}

// Subnormals are treated as zero, in the residual, too.
void run_bf16(const MatMulJob& job, std::size_t row_begin, std::size_t row_end,
              std::byte* scratch) {
  const SubnormalsAsZero mode;
  run<DType::BF16>(job, row_begin, row_end, scratch);
}

}  // namespace

MatMulKernel scalar_matmul(DType type) {
  return with_dtype(type, [](auto t) -> MatMulKernel {
    constexpr DotClass kClass = Format<t>::kClass;
    if constexpr (kClass == DotClass::FloatPairs) return {activations_of(kClass), run_bf16};
    if constexpr (kClass != DotClass::None) return {activations_of(kClass), run<t>};
    return {};
  });
}

}  // namespace cria
