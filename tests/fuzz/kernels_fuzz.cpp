// Kernels: random shapes, blocks and values; every supported instruction set gives the bits of
// the scalar kernels (kernels/README.md) and reads nothing beyond its input.
#include "kernels/kernels.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/attention/attention.h"
#include "tests/fuzz/byte_source.h"
#include "tests/fuzz/target.h"
#include "tests/kernels/attention/head_bytes.h"

namespace cria::fuzz {
namespace {

constexpr std::size_t kFenced = 1 << 20;

/// Memory before an inaccessible page.
std::byte* before_fence(std::size_t bytes) {
  static std::byte* const end = [] {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const memory =
        mmap(nullptr, kFenced + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED &&
                mprotect(static_cast<std::byte*>(memory) + kFenced, page, PROT_NONE) == 0,
            "no fence");
    return static_cast<std::byte*>(memory) + kFenced;
  }();
  require(bytes <= kFenced, "more than is fenced");
  return end - bytes;
}

/// Repeats the input, each time changed by a generator, so that short inputs fill large matrices.
class Filler {
 public:
  explicit Filler(ByteSource& data)
      : random_(data.number<std::uint32_t>() | 1), bytes_(data.rest()) {}
  std::uint8_t byte() {
    const auto given =
        at_ < bytes_.size() ? static_cast<std::uint8_t>(bytes_[at_]) : std::uint8_t{0};
    return ++at_ <= bytes_.size() ? given : static_cast<std::uint8_t>(random_() >> 7);
  }
  /// Returns any float if `wild`, else one in the range of activations.
  float value(bool wild) {
    std::uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits = bits << 8 | byte();
    float out = 0;
    if (wild)
      std::memcpy(&out, &bits, sizeof out);
    else
      out = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-28F;
    return out;
  }

 private:
  Random random_;
  std::string_view bytes_;
  std::size_t at_ = 0;
};

struct Floats {
  std::vector<float> values;
  Floats(Filler& fill, std::size_t n, bool wild) : values(n) {
    for (float& x : values) x = fill.value(wild);
  }
};

/// All NaNs are equal; 0 differs from -0.
bool same(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, [](float x, float y) {
    return (std::isnan(x) && std::isnan(y)) ||
           std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}
bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

const KernelSet& reference() { return *available_kernels().back(); }

/// 64-byte aligned memory.
struct Aligned {
  std::vector<std::byte> memory;
  std::byte* data;
  explicit Aligned(std::size_t bytes) : memory(bytes + 64) {
    data = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  }
};

void quantize_with(const KernelSet& set, const std::vector<float>& x, Activations& acts) {
  if (acts.type == ActType::F32) {
    acts.f32 = x.data();
    acts.f32_stride = acts.cols;
  } else {
    set.quantize(x.data(), acts.cols, acts, 0, acts.n_tokens, 0, acts.cols);
  }
}

void require_same_activations(const Activations& a, const Activations& b) {
  if (a.type == ActType::F32) return;
  for (std::size_t t = 0; t < a.n_tokens; ++t) {
    require(std::equal(a.q + t * a.q_stride(), a.q + t * a.q_stride() + a.cols * a.value_bytes(),
                       b.q + t * b.q_stride()),
            "other quantized values");
    if (a.type == ActType::BF16) continue;
    require(same({a.d + t * a.d_stride(), a.d_stride()}, {b.d + t * b.d_stride(), b.d_stride()}),
            "other scales");
    require(std::equal(a.sum + t * a.sum_stride(), a.sum + (t + 1) * a.sum_stride(),
                       b.sum + t * b.sum_stride()),
            "other sums");
  }
}

void products(ByteSource& data) {
  constexpr DType kTypes[] = {
      DType::F32,    DType::F16,     DType::BF16,   DType::Q4_0,   DType::Q4_1,    DType::Q5_0,
      DType::Q5_1,   DType::Q8_0,    DType::Q2_K,   DType::Q3_K,   DType::Q4_K,    DType::Q5_K,
      DType::Q6_K,   DType::IQ2_XXS, DType::IQ2_XS, DType::IQ2_S,  DType::IQ3_XXS, DType::IQ3_S,
      DType::IQ1_S,  DType::IQ1_M,   DType::IQ4_NL, DType::IQ4_XS, DType::TQ1_0,   DType::TQ2_0,
      DType::MXFP4,  DType::NVFP4,   DType::Q1_0,   DType::IQ4_KS, DType::IQ2_K,   DType::IQ3_K,
      DType::IQ4_K,  DType::IQ5_K,   DType::IQ6_K,  DType::IQ5_KS, DType::IQ2_KS,  DType::IQ3_KS,
      DType::IQ2_KL, DType::IQ4_KSS, DType::Q6_0};
  const DTypeInfo& type = dtype_info(kTypes[data.number<std::uint8_t>() % std::size(kTypes)]);
  const std::size_t rows = data.between(1, 70),
                    tokens = data.between(1, 40) % 3 == 0 ? data.between(1, 20) : 1;
  const std::size_t cols =
      type.block_values == 1 ? data.between(1, 100)
                             : type.block_values * data.between(1, type.block_values < 256 ? 9 : 3);
  const bool residual = data.flag(), wild = data.between(0, 7) == 7;
  Filler fill(data);
  const std::size_t row_bytes = type.row_bytes(cols);
  std::byte* const weights = before_fence(rows * row_bytes);
  for (std::size_t i = 0; i < rows * row_bytes; ++i)
    weights[i] = static_cast<std::byte>(fill.byte());
  const Floats x(fill, tokens * cols, wild), base(fill, tokens * rows, false);

  const ActType act = reference().matmul(type.id).act;
  const auto activations = [&](Aligned& memory) {
    Activations acts = Activations::place(act, tokens, cols, memory.data);
    acts.type = act;
    acts.n_tokens = tokens;
    acts.cols = cols;
    return acts;
  };
  Aligned memory(Activations::bytes(act, tokens, cols)), scratch(matmul_scratch_bytes(cols));
  Activations acts = activations(memory);
  quantize_with(reference(), x.values, acts);
  std::vector<float> expected;
  for (std::size_t i = available_kernels().size(); i-- > 0;) {
    const KernelSet& set = *available_kernels()[i];
    Aligned own(Activations::bytes(act, tokens, cols));
    Activations mine = activations(own);
    quantize_with(set, x.values, mine);
    require_same_activations(acts, mine);
    std::vector<float> out = base.values;
    const MatMulJob job{weights, row_bytes,  rows, cols,
                        &acts,   out.data(), rows, residual ? out.data() : nullptr};
    const std::size_t split = rows / 3;
    set.matmul(type.id).run(job, split, rows, scratch.data);
    if (split > 0) set.matmul(type.id).run(job, 0, split, scratch.data);
    if (expected.empty())
      expected = out;
    else
      require(same(out, expected), "another product");
  }
  std::vector<float> values(cols);
  for (std::size_t r = 0; r < rows; ++r)
    type.dequantize(weights + r * row_bytes, values.data(), cols);
}

void rows(ByteSource& data) {
  const std::size_t n = data.between(1, 200);
  const bool wild = data.flag();
  Filler fill(data);
  const Floats x(fill, n, wild), y(fill, n, false), finite(fill, n, false);
  const std::size_t head = std::max<std::size_t>(1, n / 4 * 2);
  std::vector<std::vector<float>> expected;
  std::vector<double> numbers;
  for (std::size_t i = available_kernels().size(); i-- > 0;) {
    const KernelSet& set = *available_kernels()[i];
    std::vector<std::vector<float>> got(5, x.values);
    set.add(got[0].data(), y.values.data(), n);
    set.silu_mul(got[1].data(), y.values.data(), n);
    set.rms_norm(got[2].data(), y.values.data(), 1e-5F, got[2].data(), n);
    got[3] = finite.values;
    set.softmax(got[3].data(), n);
    if (head % 2 == 0 && head >= 2)
      set.rope(got[4].data(), n / head, head, head, n % 2 == 0, y.values.data());
    const double sum = set.log_sum_exp(finite.values.data(), n);
    const std::vector<double> both = {
        sum, set.mean_difference(finite.values.data(), sum, y.values.data(), n)};
    if (expected.empty()) {
      expected = got;
      numbers = both;
    }
    for (std::size_t k = 0; k < got.size(); ++k) require(same(got[k], expected[k]), "another row");
    require(same_number(both[0], numbers[0]) && same_number(both[1], numbers[1]), "another sum");
  }
}

void encoders(ByteSource& data) {
  constexpr DType kTypes[] = {
      DType::F16,     DType::BF16,   DType::Q4_0,   DType::Q4_1,    DType::Q5_0,   DType::Q5_1,
      DType::Q8_0,    DType::IQ4_NL, DType::Q2_K,   DType::Q3_K,    DType::Q4_K,   DType::Q5_K,
      DType::Q6_K,    DType::IQ4_XS, DType::TQ1_0,  DType::TQ2_0,   DType::MXFP4,  DType::NVFP4,
      DType::Q1_0,    DType::IQ4_KS, DType::IQ3_S,  DType::IQ3_XXS, DType::IQ2_S,  DType::IQ2_XS,
      DType::IQ2_XXS, DType::IQ1_S,  DType::IQ1_M,  DType::IQ2_K,   DType::IQ3_K,  DType::IQ4_K,
      DType::IQ5_K,   DType::IQ6_K,  DType::IQ5_KS, DType::IQ2_KS,  DType::IQ3_KS, DType::IQ2_KL,
      DType::IQ4_KSS, DType::Q6_0};
  const DTypeInfo& type = dtype_info(kTypes[data.number<std::uint8_t>() % std::size(kTypes)]);
  const bool wild = data.flag();
  const std::uint32_t weights = data.between(0, 3);
  const bool weighted = weights % 2 == 1, wild_weights = weights == 3;
  const std::size_t n = type.block_values * (type.block_values == 256 ? 1 : data.between(1, 4));
  Filler fill(data);
  const Floats x(fill, n, wild);
  Floats importance(fill, n, wild_weights);
  for (float& w : importance.values) w = std::abs(w);
  std::vector<std::byte> expected;
  for (std::size_t i = available_kernels().size(); i-- > 0;) {
    const EncodeFn encode = available_kernels()[i]->encode(type.id);
    if (encode == nullptr) continue;
    std::byte* const blocks = before_fence(type.row_bytes(n));
    encode(x.values.data(), weighted ? importance.values.data() : nullptr, n, blocks);
    const std::vector<std::byte> got(blocks, blocks + type.row_bytes(n));
    if (expected.empty()) expected = got;
    // Floats keep NaN, but not its bits.
    if (type.block_values > 1 || !wild) require(got == expected, "other blocks");
    std::vector<float> values(n);
    type.dequantize(got.data(), values.data(), n);
    if (type.block_values > 1)
      for (const float value : values) require(std::isfinite(value), "encoded value is NaN");
  }
}

void attention(ByteSource& data) {
  const std::size_t kv_heads = data.between(1, 3), heads = kv_heads * data.between(1, 3);
  const std::size_t key_dim = data.between(1, 80), value_dim = data.between(1, 80);
  const std::size_t tokens = data.between(1, 12);
  std::size_t first = data.between(0, 150);
  const std::size_t window = data.flag() ? data.between(1, 100) : 0;
  const auto kv_type = static_cast<KvType>(data.between(0, 2));
  if (data.flag()) first += kKeySegment - 75;
  const std::size_t chunk = data.flag() ? data.between(1, 100) : 0;
  constexpr float kCaps[] = {0, 0, 1, 30, 1e6F};
  const float softcap = kCaps[data.between(0, std::size(kCaps) - 1)];
  const bool with_sinks = data.flag(), wild = data.between(0, 7) == 7;
  Filler fill(data);
  const std::size_t positions = first + tokens;
  const Floats k(fill, positions * kv_heads * key_dim, wild),
      v(fill, positions * kv_heads * value_dim, wild), q(fill, tokens * heads * key_dim, wild),
      sinks(fill, heads, wild);
  std::vector<float> expected;
  for (std::size_t i = available_kernels().size(); i-- > 0;) {
    const KernelSet& set = *available_kernels()[i];
    const std::size_t k_bytes = test::key_head_bytes(kv_type, key_dim, positions),
                      v_bytes = test::value_head_bytes(kv_type, value_dim, positions);
    Aligned keys(k_bytes * kv_heads), values(v_bytes * kv_heads);
    const KvStoreJob store{k.values.data(), kv_heads * key_dim,
                           v.values.data(), kv_heads * value_dim,
                           positions,       0,
                           key_dim,         value_dim,
                           kv_type,         keys.data,
                           values.data,     k_bytes,
                           v_bytes};
    set.store_kv(store, 0, kv_heads);
    std::vector<float> out(tokens * heads * value_dim);
    AttentionJob job{};
    job.q = q.values.data();
    job.q_stride = heads * key_dim;
    job.out = out.data();
    job.out_stride = heads * value_dim;
    job.n_heads = heads;
    job.n_kv_heads = kv_heads;
    job.head_dim = key_dim;
    job.value_dim = value_dim;
    job.first_pos = first;
    job.window = window;
    job.chunk = chunk;
    job.softcap = softcap;
    job.sinks = with_sinks ? sinks.values.data() : nullptr;
    job.scale = 1 / std::sqrt(static_cast<float>(key_dim));
    job.kv_type = kv_type;
    job.k = keys.data;
    job.v = values.data;
    job.k_head_bytes = k_bytes;
    job.v_head_bytes = v_bytes;
    Aligned scratch(attention_scratch_bytes(key_dim, value_dim));
    for (std::size_t head = 0; head < kv_heads; ++head)
      set.attention(job, head, 0, tokens, scratch.data);
    if (expected.empty()) expected = out;
    require(same(out, expected), "another attention");
  }
}

void run_kernels(std::string_view input) {
  ByteSource data(input);
  switch (data.between(0, 7)) {
    case 0:
      return rows(data);
    case 1:
      return encoders(data);
    case 2:
      return attention(data);
    default:
      return products(data);
  }
}

std::vector<std::string> kernels_seeds() {
  std::vector<std::string> out;
  for (char type = 0; type < 28; ++type)
    for (const char tokens : {'\1', '\2'})
      out.push_back({'\3', type, '\50', tokens, '\7', '\1', '\1', '\0', '\1'});
  for (char type = 0; type < 27; ++type)
    for (const char weights : {'\1', '\3'}) out.push_back({'\1', type, '\0', weights, '\1', '\5'});
  for (const char n : {'\1', '\20', '\77'}) out.push_back({'\0', n, '\0', '\1', '\2'});
  for (char kv_type = 0; kv_type < 3; ++kv_type)
    for (const char far : {'\0', '\1'})
      for (const char wild : {'\0', '\7'})
        out.push_back({'\2', '\1', '\1', '\17', '\17', '\3', '\100', '\0', kv_type, far, '\1',
                       '\17', static_cast<char>(kv_type + 2), '\1', wild});
  return out;
}

}  // namespace

const Target kKernels{"kernels", run_kernels, kernels_seeds};

}  // namespace cria::fuzz
