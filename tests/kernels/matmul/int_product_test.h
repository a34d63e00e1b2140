// Products of integer types: every instruction set against the scalar kernel, bit for bit.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/formats/format.h"
#include "kernels/kernels.h"
#include "kernels/simd/round.h"
#include "tests/kernels/kernel_test.h"

namespace cria {

/// Gives a block the float scales that `bits` (f16) says, whatever else it holds.
inline void set_scales(DType type, std::byte* block, std::uint16_t bits) {
  set_block_scales(type, block, f16_to_f32(bits), f16_to_f32(bits));
}

/// Memory between two pages that must not be touched: `bytes` long,
/// `gap` bytes from the first or the last of them.
class Fenced {
 public:
  Fenced(std::size_t bytes, bool at_end, std::size_t gap)
      : bytes_((bytes + gap + kPage - 1) / kPage * kPage + 2 * kPage) {
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(memory_ + kPage, bytes_ - 2 * kPage, PROT_READ | PROT_WRITE), 0);
    data_ = at_end ? memory_ + bytes_ - kPage - gap - bytes : memory_ + kPage + gap;
  }
  ~Fenced() { munmap(memory_, bytes_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  std::byte* data() { return data_; }
  /// A page that must not be touched.
  std::byte* fence() { return memory_; }

 private:
  static inline const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t bytes_;
  std::byte *memory_, *data_;
};

struct ProductShape {
  std::size_t rows, blocks, tokens;
  std::size_t row_bytes = 0;  ///< from one row to the next; 0: they follow one another
  bool wild = false;          ///< scales of rows and of activations are anything that there may be
};

/// Scales of activations: NaN or infinite, very large and very small.
inline constexpr float kWildScales[] = {std::numeric_limits<float>::quiet_NaN(),
                                        std::numeric_limits<float>::max() / 127,
                                        1e30F,
                                        1e-30F,
                                        1e-40F,
                                        std::numeric_limits<float>::denorm_min(),
                                        0.0F};

/// Activations of a shape; q(i) is the i-th value.
struct Inputs {
  Buffer<std::byte> memory;
  Activations acts;

  template <class Q>
  Inputs(ActType type, ProductShape s, std::size_t cols, Q q)
      : memory(Activations::bytes(type, s.tokens, cols)),
        acts(Activations::place(type, s.tokens, cols, memory.data())) {
    std::mt19937 random(7);
    for (std::size_t t = 0; t < s.tokens; ++t) {
      for (std::size_t i = 0; i < cols; ++i)
        acts.q[t * acts.q_stride() + i] = static_cast<std::int8_t>(q(t * cols + i));
      for (std::size_t i = 0; i < acts.d_stride(); ++i) {
        float& d = acts.d[t * acts.d_stride() + i];
        d = static_cast<float>(random() % 1000) / 997.0F;
        if (s.wild && random() % 16 == 0) d = kWildScales[random() % std::size(kWildScales)];
      }
      const std::size_t per_sum = cols / acts.sum_stride();
      for (std::size_t i = 0; i < acts.sum_stride(); ++i) {
        int sum = 0;
        for (std::size_t k = 0; k < per_sum; ++k)
          sum += acts.q[t * acts.q_stride() + i * per_sum + k];
        acts.sum[t * acts.sum_stride() + i] = static_cast<std::int16_t>(sum);
      }
    }
  }
};

/// fill(block) makes each block, q(i) each activation; the weights end (or start) gap bytes from
/// memory that may not be touched. After them, where they end there, such memory is said to be read
/// next.
template <class Fill, class Q>
void expect_equal(DType type, ProductShape s, bool at_end, bool residual, Fill fill, Q q,
                  std::size_t gap = 0) {
  const DTypeInfo& info = dtype_info(type);
  const std::size_t cols = s.blocks * info.block_values, own_bytes = info.row_bytes(cols);
  const std::size_t row_bytes = s.row_bytes == 0 ? own_bytes : s.row_bytes;
  const std::size_t bytes = (s.rows - 1) * row_bytes + own_bytes;
  Fenced weights(bytes, at_end, gap);
  std::memset(weights.data(), 0xA5, bytes);  // between rows
  for (std::size_t r = 0; r < s.rows; ++r) {
    std::byte* const row = weights.data() + r * row_bytes;
    for (std::size_t b = 0; b < s.blocks; ++b) fill(row + info.header_bytes + b * info.block_bytes);
    set_row_scale(type, row,
                  s.wild && r % 3 == 0 ? kWildScales[r / 3 % std::size(kWildScales)]
                                       : static_cast<float>(r % 7) - 2.75F);
  }
  const MatMulKernel reference = scalar_matmul(type);
  const Inputs in(reference.act, s, cols, q);
  // One more token, which must stay unchanged.
  Buffer<float> expected((s.tokens + 1) * (s.rows + 5)), base(expected.size());
  fill_random(base.data(), base.size(), 3);
  std::copy(base.begin(), base.end(), expected.begin());
  Buffer<std::byte>& scratch = kept_buffer(matmul_scratch_bytes(cols));
  PrefetchMode prefetch = PrefetchMode::InOrder;
  const auto run = [&](const MatMulKernel& kernel, Buffer<float>& out,
                       const std::byte* packed = nullptr) {
    MatMulJob job{weights.data(), row_bytes,  s.rows,     cols,
                  &in.acts,       out.data(), s.rows + 5, residual ? out.data() : nullptr};
    job.packed = packed;
    job.prefetch = prefetch;
    if (at_end) job.next_weights = weights.fence();
    kernel.run(job, s.rows / 3, s.rows, scratch.data());
    kernel.run(job, 0, s.rows / 3, scratch.data());
    for (float& x : out)
      if (std::isnan(x)) x = std::numeric_limits<float>::quiet_NaN();  // its bits are the machine's
  };
  run(reference, expected);
  for (const KernelSet* set : tested_kernels()) {
    Buffer<float> out = copy_at(base, 0);
    ASSERT_EQ(set->matmul(type).act, reference.act);
    ASSERT_EQ(set->matmul(type).run == reference.run, set == &scalar_kernels())
        << set->isa << ' ' << info.name;
    run(set->matmul(type), out);
    EXPECT_TRUE(out == expected) << set->isa << ' ' << info.name << ' ' << s.rows << " rows, "
                                 << s.blocks << " blocks, " << s.tokens << " tokens, rows "
                                 << row_bytes << " bytes apart";
    for (const PrefetchMode other :
         s.tokens == 1 ? set->prefetch_modes : std::span<const PrefetchMode>()) {
      prefetch = other;
      out = copy_at(base, 0);
      run(set->matmul(type), out);
      EXPECT_TRUE(out == expected)
          << set->isa << ' ' << info.name << ", prefetch mode " << static_cast<int>(other);
    }
    prefetch = PrefetchMode::InOrder;
    const PackActivations packing = set->matmul(type).packing(s.tokens);
    if (packing.run == nullptr) continue;
    Buffer<std::byte> packed(packing.bytes(s.tokens, cols));
    packing.run(in.acts, s.tokens / 3, s.tokens, packed.data());
    packing.run(in.acts, 0, s.tokens / 3, packed.data());
    out = copy_at(base, 0);
    run(set->matmul(type), out, packed.data());
    EXPECT_TRUE(out == expected) << set->isa << ' ' << info.name << ", packed";
  }
}

/// A test of every integer type.
class IntProduct : public testing::TestWithParam<DType> {
 protected:
  std::mt19937 random_{1};

  auto random_blocks(std::uint16_t scale_mask = 0xBBFF) {  // scales below 2
    return [this, scale_mask](std::byte* block) {
      for (std::size_t i = 0; i < dtype_info(GetParam()).block_bytes; ++i)
        block[i] = static_cast<std::byte>(random_());
      set_scales(GetParam(), block, static_cast<std::uint16_t>(random_() & scale_mask));
      if (GetParam() == DType::NVFP4) mix_scales(block);
    };
  }
  /// Infinite and NaN among the scales.
  auto wild_blocks() {
    return [this](std::byte* block) {
      for (std::size_t i = 0; i < dtype_info(GetParam()).block_bytes; ++i)
        block[i] = static_cast<std::byte>(random_());
    };
  }
  auto same_blocks(int byte, std::uint16_t scale) {
    return [byte, scale](std::byte* block) {
      std::memset(block, byte, dtype_info(GetParam()).block_bytes);
      set_scales(GetParam(), block, scale);
    };
  }
  auto random_values() {
    return [this](std::size_t) { return static_cast<int>(random_() % 255) - 127; };
  }

 private:
  /// set_scales() gives all groups the same scale: change the low bits of each.
  void mix_scales(std::byte* block) {
    constexpr std::size_t kGroups = 4;  // their scales come first
    for (std::size_t g = 0; g < kGroups; ++g) block[g] ^= static_cast<std::byte>(random_() % 16);
  }
};

}  // namespace cria
