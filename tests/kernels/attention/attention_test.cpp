// Attention: every instruction set against the scalar one bit for bit, any split of tokens and heads
// likewise, the scalar one against a plain softmax in double over the same cached values.
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/attention/kv_layout.h"
#include "kernels/formats/f16.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

struct AttentionShape {
  std::size_t heads, kv_heads, head_dim, value_dim, first_pos, tokens, window;
};
std::ostream& operator<<(std::ostream& out, const AttentionShape& s) {
  return out << s.heads << '/' << s.kv_heads << " heads, dims " << s.head_dim << ',' << s.value_dim << ", at "
             << s.first_pos << '+' << s.tokens << ", window " << s.window;
}

const AttentionShape kShapes[] = {
    {1, 1, 64, 64, 0, 1, 0},       // one token, one head
    {4, 4, 64, 64, 63, 1, 0},      // the last position of a tile
    {4, 2, 64, 64, 64, 1, 0},      // the first of the next
    {32, 4, 64, 64, 300, 1, 0},    // decoding with grouped heads
    {8, 8, 128, 128, 0, 70, 0},    // a prompt over a tile's border
    {8, 2, 128, 128, 50, 150, 0},  // a later chunk, more queries than one pass takes
    {7, 1, 40, 24, 10, 20, 0},     // dims that are no multiple of 16
    {6, 3, 80, 80, 3, 33, 0},      // dims that are no multiple of 32 or 64
    {2, 2, 8, 8, 0, 5, 0},         // less than a register
    {2, 1, 256, 256, 100, 3, 0},   //
    {4, 2, 64, 64, 200, 90, 100},  // a window that begins inside tiles
    {4, 2, 64, 64, 200, 90, 7},    // a window narrower than a block of tokens
    {3, 1, 64, 64, 0, 200, 1},     // every token sees itself only
};
constexpr KvType kKvTypes[] = {KvType::F16, KvType::F32, KvType::Q8_0};

/// A cache filled by a kernel set's store_kv with random keys and values, every other byte poisoned.
struct Cache {
  AttentionShape shape;
  KvType type;
  std::size_t k_bytes, v_bytes;
  Buffer<std::byte> k, v;

  Cache(const AttentionShape& s, KvType kv_type, const KernelSet& kernels)
      : shape(s),
        type(kv_type),
        k_bytes(key_head_bytes(type, s.head_dim, s.first_pos + s.tokens)),
        v_bytes(value_head_bytes(type, s.value_dim, s.first_pos + s.tokens)),
        k(k_bytes * s.kv_heads),
        v(v_bytes * s.kv_heads) {
    std::memset(k.data(), 0xFF, k.size());  // NaN, should anybody look
    std::memset(v.data(), 0xFF, v.size());
    const std::size_t n = s.first_pos + s.tokens;
    Buffer<float> keys(n * s.kv_heads * s.head_dim), values(n * s.kv_heads * s.value_dim);
    fill_random(keys.data(), keys.size(), 11);
    fill_random(values.data(), values.size(), 12);
    for (std::size_t pos = 0; pos < n;) {  // in uneven chunks
      const std::size_t count = std::min<std::size_t>(n - pos, pos % 5 == 0 ? 1 : 37);
      KvStoreJob job{};
      job.k = &keys[pos * s.kv_heads * s.head_dim];
      job.k_stride = s.kv_heads * s.head_dim;
      job.v = &values[pos * s.kv_heads * s.value_dim];
      job.v_stride = s.kv_heads * s.value_dim;
      job.n_tokens = count;
      job.first_pos = pos;
      job.head_dim = s.head_dim;
      job.value_dim = s.value_dim;
      job.kv_type = type;
      job.k_cache = k.data();
      job.v_cache = v.data();
      job.k_head_bytes = k_bytes;
      job.v_head_bytes = v_bytes;
      kernels.store_kv(job, 0, s.kv_heads);
      pos += count;
    }
  }

  [[nodiscard]] double key(std::size_t head, std::size_t pos, std::size_t d) const {
    const std::byte* tile = k.data() + head * k_bytes + pos / kKeyTile * key_tile_bytes(type, shape.head_dim);
    const std::size_t slot = pos % kKeyTile;
    if (type == KvType::F32) return load<float>(tile, d * kKeyTile + slot);
    if (type == KvType::F16) return f16_to_f32(load<F16Bits>(tile, d * kKeyTile + slot));
    const std::byte* block = tile + d / 32 * kQ8KeyBlockBytes;
    return static_cast<double>(f16_to_f32(load<F16Bits>(block, slot))) *
           load<std::int8_t>(block + kQ8KeyBlockValues, d % 32 * kKeyTile + slot);
  }
  [[nodiscard]] double value(std::size_t head, std::size_t pos, std::size_t d) const {
    const std::byte* row = v.data() + head * v_bytes + pos * value_row_bytes(type, shape.value_dim);
    if (type == KvType::F32) return load<float>(row, d);
    if (type == KvType::F16) return f16_to_f32(load<F16Bits>(row, d));
    const auto block = load_block<BlockQ8_0>(row + d / 32 * sizeof(BlockQ8_0));
    return static_cast<double>(f16_to_f32(block.d)) * block.q[d % 32];
  }

 private:
  template <class T>
  static T load(const std::byte* p, std::size_t i) {
    T x;
    std::memcpy(&x, p + i * sizeof(T), sizeof x);
    return x;
  }
};

struct Queries {
  Buffer<float> q;
  explicit Queries(const AttentionShape& s) : q(s.tokens * s.heads * s.head_dim) {
    fill_random(q.data(), q.size(), 13, 2);
  }
};

AttentionJob make_job(const Cache& cache, const Queries& queries, Buffer<float>& out) {
  const AttentionShape& s = cache.shape;
  AttentionJob job{};
  job.q = queries.q.data();
  job.q_stride = s.heads * s.head_dim;
  job.out = out.data();
  job.out_stride = s.heads * s.value_dim;
  job.n_heads = s.heads;
  job.n_kv_heads = s.kv_heads;
  job.head_dim = s.head_dim;
  job.value_dim = s.value_dim;
  job.first_pos = s.first_pos;
  job.window = s.window;
  job.scale = 1 / std::sqrt(static_cast<float>(s.head_dim));
  job.kv_type = cache.type;
  job.k = cache.k.data();
  job.v = cache.v.data();
  job.k_head_bytes = cache.k_bytes;
  job.v_head_bytes = cache.v_bytes;
  return job;
}

Buffer<float> run(const KernelSet& kernels, const Cache& cache, const Queries& queries,
                  std::size_t tokens_per_call) {
  const AttentionShape& s = cache.shape;
  Buffer<float> out(s.tokens * s.heads * s.value_dim);
  Buffer<std::byte> scratch(attention_scratch_bytes(s.heads, s.kv_heads, s.head_dim, s.value_dim));
  std::memset(scratch.data(), 0xFF, scratch.size());
  const AttentionJob job = make_job(cache, queries, out);
  for (std::size_t head = 0; head < s.kv_heads; ++head)
    for (std::size_t t = 0; t < s.tokens; t += tokens_per_call)
      kernels.attention(job, head, t, std::min(t + tokens_per_call, s.tokens), scratch.data());
  return out;
}

template <class F>
void for_each_case(F f) {
  for (const AttentionShape& shape : kShapes) {
    for (const KvType type : kKvTypes) {
      SCOPED_TRACE(testing::Message() << shape << ", type " << static_cast<int>(type));
      f(Cache(shape, type, scalar_kernels()), Queries(shape));
    }
  }
}

TEST(Attention, StoresTheSameBytesOnEveryIsa) {
  for (const AttentionShape& shape : kShapes) {
    for (const KvType type : kKvTypes) {
      const Cache expected(shape, type, scalar_kernels());
      for (const KernelSet* set : available_kernels()) {
        const Cache got(shape, type, *set);
        EXPECT_TRUE(got.k == expected.k && got.v == expected.v) << set->isa << ' ' << shape;
      }
    }
  }
}

TEST(Attention, SameBitsOnEveryIsaAndForEverySplit) {
  for_each_case([](const Cache& cache, const Queries& queries) {
    const Buffer<float> expected = run(scalar_kernels(), cache, queries, 1);
    for (const KernelSet* set : available_kernels())
      for (const std::size_t tokens_per_call : {1, 2, 7, 64, 512})
        EXPECT_TRUE(run(*set, cache, queries, tokens_per_call) == expected)
            << set->isa << ' ' << tokens_per_call << " tokens per call";
  });
}

TEST(Attention, IsASoftmaxOverTheKeys) {
  for_each_case([](const Cache& cache, const Queries& queries) {
    const AttentionShape& s = cache.shape;
    const Buffer<float> got = run(scalar_kernels(), cache, queries, s.tokens);
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
    for (std::size_t t = 0; t < s.tokens; ++t) {
      for (std::size_t head = 0; head < s.heads; ++head) {
        const std::size_t kv_head = head / (s.heads / s.kv_heads), pos = s.first_pos + t;
        const std::size_t first = s.window == 0 || pos < s.window ? 0 : pos + 1 - s.window;
        const float* q = &queries.q[(t * s.heads + head) * s.head_dim];
        std::vector<double> weight;
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        for (std::size_t key = first; key <= pos; ++key) {
          double score = 0;
          for (std::size_t d = 0; d < s.head_dim; ++d) score += q[d] * cache.key(kv_head, key, d);
          weight.push_back(score * scale);
          top = std::max(top, weight.back());
        }
        for (double& w : weight) sum += w = std::exp(w - top);
        for (std::size_t d = 0; d < s.value_dim; ++d) {
          double exact = 0;
          for (std::size_t key = first; key <= pos; ++key)
            exact += weight[key - first] / sum * cache.value(kv_head, key, d);
          // Scores up to about 10 carry head_dim roundings: 1e-5 of every weight, values are of order 1.
          ASSERT_NEAR(got[(t * s.heads + head) * s.value_dim + d], exact, 4e-5)
              << "token " << t << " head " << head << " dim " << d;
        }
      }
    }
  });
}

}  // namespace
}  // namespace cria
