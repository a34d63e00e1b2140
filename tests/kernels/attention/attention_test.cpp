// Attention: every instruction set equals the scalar one bit for bit, for any split of tokens and
// heads. The scalar one is compared with a plain softmax in double over the same cached values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/simd/round.h"
#include "tests/kernels/attention/head_bytes.h"
#include "tests/kernels/kernel_test.h"

namespace cria {
namespace {

struct AttentionShape {
  std::size_t heads, kv_heads, head_dim, value_dim, first_pos, tokens, window;
  std::size_t chunk = 0;
  float softcap = 0;
  bool sinks = false, latent = false;
  bool scaled = true;  ///< else scores are multiplied by 0
  bool causal = true;  ///< else queries also see the keys after them

  [[nodiscard]] std::size_t first_key(std::size_t pos) const {
    const std::size_t from = chunk == 0 ? 0 : pos / chunk * chunk;
    return window == 0 || pos < window ? from : std::max(from, pos + 1 - window);
  }
  [[nodiscard]] std::size_t end_key(std::size_t pos) const {
    const std::size_t all = first_pos + tokens;
    return causal ? pos + 1 : window == 0 ? all : std::min(all, pos + window);
  }
  [[nodiscard]] double scale() const {
    return scaled ? 1 / std::sqrt(static_cast<double>(head_dim)) : 0;
  }
};
std::ostream& operator<<(std::ostream& out, const AttentionShape& s) {
  return out << s.heads << '/' << s.kv_heads << " heads, dims " << s.head_dim << ',' << s.value_dim
             << ", at " << s.first_pos << '+' << s.tokens << ", window " << s.window << ", chunk "
             << s.chunk << ", cap " << s.softcap << (s.sinks ? ", sinks" : "")
             << (s.latent ? ", latent" : "") << (s.causal ? "" : ", both ways");
}

const AttentionShape kShapes[] = {
    {1, 1, 64, 64, 0, 1, 0},                 // one token, one head
    {4, 4, 64, 64, 63, 1, 0},                // the last position of a tile
    {4, 2, 64, 64, 64, 1, 0},                // the first of the next
    {32, 4, 64, 64, 300, 1, 0},              // decoding with grouped heads
    {8, 8, 128, 128, 0, 70, 0},              // a prompt over a tile's border
    {8, 2, 128, 128, 50, 150, 0},            // a later chunk, more queries than one pass takes
    {7, 1, 40, 24, 10, 20, 0},               // dims not a multiple of 16
    {6, 3, 80, 80, 3, 33, 0},                // dims not a multiple of 32 or 64
    {2, 2, 8, 8, 0, 5, 0},                   // less than a register
    {2, 1, 256, 256, 100, 3, 0},             //
    {4, 2, 64, 64, 200, 90, 100},            // a window that begins inside tiles
    {4, 2, 64, 64, 200, 90, 7},              // a window narrower than a block of tokens
    {3, 1, 64, 64, 0, 200, 1},               // every token sees itself only
    {4, 2, 96, 96, 60, 80, 0, 48, 0, true},  // chunks that begin inside tiles, sinks
    {5, 1, 40, 72, 20, 90, 50, 0, 1.5F},     // a soft cap that bends most scores
    {12, 1, 72, 40, 30, 40, 0, 0, 0, false, true},   // values that end inside a block of the keys
    {6, 1, 192, 128, 120, 9, 0, 0, 0, false, true},  // latent keys
    {2, 1, 40, 64, 2045, 5, 0},                      // over the border of a segment
    {2, 1, 8, 24, 4095, 2, 0, 0, 0, true},           // into a third segment, a sink
    {3, 1, 8, 40, 4093, 5, 2050},                    // a window of two and three segments
    {2, 1, 16, 32, 2035, 40, 30, 0, 1.5F, true},     // one that leaves a segment, a sink
    {3, 1, 40, 24, 2046, 4, 0, 0, 0, false, true},   // latent keys of two
    {3, 1, 40, 24, 90, 20, 0, 0, 1e6F},              // a soft cap that bends none
    {2, 1, 320, 288, 60, 6, 0},                      // large heads
    {98, 1, 576, 512, 62, 2, 0, 0, 0, false, true},  // latent keys; more heads than a pass takes
    {200, 1, 24, 40, 70, 2, 30},                     // the same
    // Scores that are all zero.
    {2, 1, 24, 40, 99, 20, 30, 0, 0, true, false, false},
    // Encoders, which see all keys, or a window on both sides.
    {4, 4, 64, 64, 0, 150, 0, 0, 0, false, false, true, false},
    {4, 2, 40, 24, 0, 190, 33, 0, 1.5F, false, false, true, false},
    {2, 2, 64, 64, 120, 30, 0, 0, 0, false, false, true, false},  // the end of a text
    {2, 1, 8, 24, 2030, 40, 25, 0, 0, true, false, true, false},  // over the border of a segment
};
constexpr KvType kKvTypes[] = {KvType::F16, KvType::F32, KvType::Q8_0};

/// Layouts of a cache: contiguous tiles of each head, or pages with a tile of every head.
struct Places {
  std::size_t k_bytes, v_bytes;  ///< from a head to the next
  std::size_t k_size, v_size;    ///< in total
  std::size_t page_bytes = 0;
  std::vector<std::uint32_t> pages{};

  static Places in_a_row(const AttentionShape& s, KvType type) {
    const std::size_t n = s.first_pos + s.tokens;
    const std::size_t k = test::key_head_bytes(type, s.head_dim, n),
                      v = test::value_head_bytes(type, s.value_dim, n);
    return {k, v, k * s.kv_heads, v * s.kv_heads};
  }
  /// The last tile comes first, behind an unused page.
  static Places in_pages(const AttentionShape& s, KvType type) {
    const std::size_t k = key_tile_bytes(type, s.head_dim),
                      v = kKeyTile * value_row_bytes(type, s.value_dim);
    Places out{k, v, 0, 0, s.kv_heads * (k + v)};  // as in a pool where both lie in the same page
    const std::size_t n = (s.first_pos + s.tokens + kKeyTile - 1) / kKeyTile;
    for (std::size_t tile = 0; tile < n; ++tile)
      out.pages.push_back(static_cast<std::uint32_t>(n - tile));
    out.k_size = out.v_size = (n + 1) * out.page_bytes;
    return out;
  }
  [[nodiscard]] std::size_t page(std::size_t pos) const {
    return pages.empty() ? pos / kKeyTile : pages[pos / kKeyTile];
  }
};

/// The same numbers for every cache of a shape, made once: that takes longer than storing them.
const Buffer<float>& kept_random(std::size_t n, std::uint32_t seed) {
  static std::map<std::pair<std::size_t, std::uint32_t>, Buffer<float>> all;
  const auto [at, fresh] = all.try_emplace({n, seed}, n);
  if (fresh) fill_random(at->second.data(), n, seed);
  return at->second;
}

/// A cache filled by a kernel set's store_kv with random keys and values, every other byte
/// poisoned.
struct Cache {
  AttentionShape shape;
  KvType type;
  Places at;
  Buffer<std::byte> k, v;

  /// Every 50th position's values are `outlier` times as large as the others.
  Cache(const AttentionShape& s, KvType kv_type, const KernelSet& kernels, float outlier = 1)
      : Cache(s, kv_type, kernels, Places::in_a_row(s, kv_type), outlier) {}
  Cache(const AttentionShape& s, KvType kv_type, const KernelSet& kernels, Places places,
        float outlier = 1)
      : shape(s), type(kv_type), at(std::move(places)), k(at.k_size), v(at.v_size) {
    std::memset(k.data(), 0xFF, k.size());  // NaN, should anybody look
    std::memset(v.data(), 0xFF, v.size());
    const std::size_t n = s.first_pos + s.tokens;
    const std::size_t row = s.kv_heads * s.value_dim;
    const Buffer<float>& keys = kept_random(n * s.kv_heads * s.head_dim, 11);
    Buffer<float> values = copy_at(kept_random(n * row, 12), 0);
    for (std::size_t pos = 7; pos < n; pos += 50)
      for (std::size_t i = 0; i < row; ++i) values[pos * row + i] *= outlier;
    for (std::size_t pos = 0; pos < n;) {  // in uneven chunks
      const std::size_t count = std::min<std::size_t>(n - pos, pos % 5 == 0 ? 1 : 37);
      store(kernels, &keys[pos * s.kv_heads * s.head_dim], &values[pos * row], pos, count);
      pos += count;
    }
  }

  /// The first 32 dims of a position's key, or of its value, in every head.
  enum class Part { Key, Value };
  void replace(std::size_t pos, Part part, float with) {
    const std::size_t n = shape.first_pos + shape.tokens;
    const auto row_of = [&](std::size_t dim, std::uint32_t seed, bool replaced) {
      const std::size_t width = shape.kv_heads * dim;
      const float* const from = kept_random(n * width, seed).data() + pos * width;
      std::vector<float> row(from, from + width);
      for (std::size_t i = 0; i < width && replaced; ++i)
        if (i % dim < 32) row[i] = with;
      return row;
    };
    store(scalar_kernels(), row_of(shape.head_dim, 11, part == Part::Key).data(),
          row_of(shape.value_dim, 12, part == Part::Value).data(), pos, 1);
  }

  [[nodiscard]] double key(std::size_t head, std::size_t pos, std::size_t d) const {
    const std::byte* tile = key_tile(head, pos);
    const std::size_t slot = pos % kKeyTile;
    if (type == KvType::F32) return load<float>(tile, d * kKeyTile + slot);
    if (type == KvType::F16) return f16_to_f32(load<F16Bits>(tile, d * kKeyTile + slot));
    const auto [scale, byte] = q8_key(head, pos, d);
    return scale * byte;
  }
  [[nodiscard]] double value(std::size_t head, std::size_t pos, std::size_t d) const {
    if (shape.latent) return key(head, pos, d);
    const std::byte* row =
        value_tile(head, pos) + pos % kKeyTile * value_row_bytes(type, shape.value_dim);
    if (type == KvType::F32) return load<float>(row, d);
    if (type == KvType::F16) return f16_to_f32(load<F16Bits>(row, d));
    const auto [scale, byte] = q8_value(head, pos, d);
    return scale * byte;
  }
  /// A value's scale and byte.
  [[nodiscard]] std::pair<double, int> q8_value(std::size_t head, std::size_t pos,
                                                std::size_t d) const {
    if (shape.latent) return q8_key(head, pos, d);
    const std::size_t slot = pos % kKeyTile;
    return q8(value_tile(head, pos) + d / 32 * kQ8BlockBytes, slot, q8_value_offset(slot, d % 32));
  }

 private:
  void store(const KernelSet& kernels, const float* keys, const float* values, std::size_t pos,
             std::size_t count) {
    KvStoreJob job{};
    job.k = keys;
    job.k_stride = shape.kv_heads * shape.head_dim;
    job.v = values;
    job.v_stride = shape.kv_heads * shape.value_dim;
    job.n_tokens = count;
    job.first_pos = pos;
    job.head_dim = shape.head_dim;
    job.value_dim = shape.value_dim;
    job.kv_type = type;
    job.k_cache = k.data();
    job.v_cache = shape.latent ? nullptr : v.data();
    job.k_head_bytes = at.k_bytes;
    job.v_head_bytes = at.v_bytes;
    job.page_bytes = at.page_bytes;
    job.pages = at.pages.empty() ? nullptr : at.pages.data();
    kernels.store_kv(job, 0, shape.kv_heads);
  }
  [[nodiscard]] const std::byte* key_tile(std::size_t head, std::size_t pos) const {
    return k.data() + head * at.k_bytes +
           at.page(pos) * tile_step(at.page_bytes, key_tile_bytes(type, shape.head_dim));
  }
  [[nodiscard]] const std::byte* value_tile(std::size_t head, std::size_t pos) const {
    return v.data() + head * at.v_bytes +
           at.page(pos) *
               tile_step(at.page_bytes, kKeyTile * value_row_bytes(type, shape.value_dim));
  }
  [[nodiscard]] std::pair<double, int> q8_key(std::size_t head, std::size_t pos,
                                              std::size_t d) const {
    const std::byte* tile = key_tile(head, pos);
    return q8(tile + d / 32 * kQ8BlockBytes, pos % kKeyTile, q8_key_offset(pos % kKeyTile, d % 32));
  }
  static std::pair<double, int> q8(const std::byte* block, std::size_t slot, std::size_t offset) {
    return {f16_to_f32(load<F16Bits>(block, slot)), static_cast<int>(block[offset]) - kQ8Bias};
  }
  template <class T>
  static T load(const std::byte* p, std::size_t i) {
    T x;
    std::memcpy(&x, p + i * sizeof(T), sizeof x);
    return x;
  }
};

struct Queries {
  Buffer<float> q, sinks;
  explicit Queries(const AttentionShape& s) : q(s.tokens * s.heads * s.head_dim), sinks(s.heads) {
    fill_random(q.data(), q.size(), 13, 2);
    fill_random(sinks.data(), sinks.size(), 14, 2);
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
  job.text = s.causal ? 0 : s.first_pos + s.tokens;
  job.window = s.window;
  job.chunk = s.chunk;
  job.softcap = s.softcap;
  job.sinks = s.sinks ? queries.sinks.data() : nullptr;
  job.scale = static_cast<float>(s.scale());
  job.kv_type = cache.type;
  job.k = cache.k.data();
  job.v = s.latent ? nullptr : cache.v.data();
  job.k_head_bytes = cache.at.k_bytes;
  job.v_head_bytes = cache.at.v_bytes;
  job.page_bytes = cache.at.page_bytes;
  job.pages = cache.at.pages.empty() ? nullptr : cache.at.pages.data();
  return job;
}

/// compute(job, head, token_begin, token_end, scratch) for all heads and tokens.
template <class F>
Buffer<float> run_by(const Cache& cache, const Queries& queries, std::size_t tokens_per_call,
                     F compute) {
  const AttentionShape& s = cache.shape;
  Buffer<float> out(s.tokens * s.heads * s.value_dim);
  Buffer<std::byte>& scratch = kept_buffer(attention_scratch_bytes(s.head_dim, s.value_dim));
  std::memset(scratch.data(), 0xFF, scratch.size());
  const AttentionJob job = make_job(cache, queries, out);
  for (std::size_t head = 0; head < s.kv_heads; ++head)
    for (std::size_t t = 0; t < s.tokens; t += tokens_per_call)
      compute(job, head, t, std::min(t + tokens_per_call, s.tokens), scratch.data());
  return out;
}

Buffer<float> run(const KernelSet& kernels, const Cache& cache, const Queries& queries,
                  std::size_t tokens_per_call) {
  return run_by(cache, queries, tokens_per_call, kernels.attention);
}

/// The same by segments of keys, the last first.
Buffer<float> run_segments(const KernelSet& kernels, const Cache& cache, const Queries& queries,
                           std::size_t tokens_per_call) {
  const auto compute = [&](AttentionJob job, std::size_t head, std::size_t begin, std::size_t end,
                           std::byte* scratch) {
    const SegmentRange seen = job.segments_of(begin, end);
    const std::size_t floats =
        segment_state_floats((end - begin) * (job.n_heads / job.n_kv_heads), job.value_dim);
    Buffer<float> states(seen.size() * floats);
    std::memset(states.data(), 0xFF, states.size() * sizeof(float));
    for (job.segment = seen.end; job.segment-- > seen.begin;) {
      job.states = states.data() + (job.segment - seen.begin) * floats;
      kernels.attention(job, head, begin, end, scratch);
    }
    job.states = states.data();
    kernels.merge_segments(job, head, begin, end);
  };
  return run_by(cache, queries, tokens_per_call, compute);
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
      for (const Places& places : {Places::in_a_row(shape, type), Places::in_pages(shape, type)}) {
        const Cache expected(shape, type, scalar_kernels(), places);
        for (const KernelSet* set : available_kernels()) {
          const Cache got(shape, type, *set, places);
          EXPECT_TRUE(got.k == expected.k && got.v == expected.v) << set->isa << ' ' << shape;
        }
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

TEST(Attention, SegmentsOneByOneGiveTheSameBits) {
  for_each_case([](const Cache& cache, const Queries& queries) {
    const Buffer<float> expected = run(scalar_kernels(), cache, queries, 1);
    for (const KernelSet* set : available_kernels())
      for (const std::size_t tokens_per_call : {1, 7, 64})
        EXPECT_TRUE(run_segments(*set, cache, queries, tokens_per_call) == expected)
            << set->isa << ' ' << tokens_per_call << " tokens per call";
  });
}

TEST(Attention, PagesGiveTheSameBits) {
  for_each_case([](const Cache& cache, const Queries& queries) {
    const AttentionShape& s = cache.shape;
    const Buffer<float> expected = run(scalar_kernels(), cache, queries, 1);
    Cache paged(s, cache.type, scalar_kernels(), Places::in_pages(s, cache.type));
    for (std::size_t tile = 0; tile < s.first_key(s.first_pos) / kKeyTile; ++tile)
      paged.at.pages[tile] = ~std::uint32_t{0};  // no query sees it
    for (const KernelSet* set : available_kernels())
      EXPECT_TRUE(run(*set, paged, queries, 64) == expected &&
                  run_segments(*set, paged, queries, 1) == expected)
          << set->isa;
  });
}

/// One query's softmax in double over the cached keys and values, and how far the kernel may be
/// from it.
class ExactAttention {
 public:
  ExactAttention(const Cache& cache, const Queries& queries, std::size_t token, std::size_t head)
      : cache_(cache), kv_head_(head / (cache.shape.heads / cache.shape.kv_heads)) {
    const AttentionShape& s = cache.shape;
    const std::size_t pos = s.first_pos + token;
    first_ = s.first_key(pos);
    const float* q = &queries.q[(token * s.heads + head) * s.head_dim];
    double step = 0;
    for (std::size_t d = 0; d < s.head_dim; ++d) step = std::max(step, std::abs(q[d]) / kSteps);
    double top = s.sinks ? queries.sinks[head] : -std::numeric_limits<double>::infinity();
    for (std::size_t key = first_; key < s.end_key(pos); ++key) {
      double score = 0, size = 0;
      for (std::size_t d = 0; d < s.head_dim; ++d) {
        score += q[d] * cache.key(kv_head_, key, d);
        size += std::abs(cache.key(kv_head_, key, d));
      }
      score *= s.scale();
      weight_.push_back(s.softcap == 0 ? score : s.softcap * std::tanh(score / s.softcap));
      top = std::max(top, weight_.back());
      score_error_ = std::max(score_error_, step / 2 * size * s.scale());
    }
    sink_ = s.sinks ? std::exp(queries.sinks[head] - top) : 0;
    double sum = sink_;
    for (double& w : weight_) sum += w = std::exp(w - top);
    for (double& w : weight_) w /= sum;
    sink_ /= sum;
  }

  [[nodiscard]] double value(std::size_t d) const {
    double out = 0;
    for (std::size_t i = 0; i < weight_.size(); ++i)
      out += weight_[i] * cache_.value(kv_head_, first_ + i, d);
    return out;
  }

  /// Σ weight·|value| of all keys but that one.
  [[nodiscard]] double size_without(std::size_t key, std::size_t d) const {
    double size = 0;
    for (std::size_t i = 0; i < weight_.size(); ++i)
      if (first_ + i != key) size += weight_[i] * std::abs(cache_.value(kv_head_, first_ + i, d));
    return size;
  }

  /// Scores up to about 10 carry head_dim roundings: 1e-5 of every weight; most values are of order
  /// 1. A Q8_0 cache adds the rounding to integers:
  /// - A query is rounded by half a step of amax/32512 in every dim. A score is then wrong by up to
  ///   e = step/2·Σ|key|·scale; a soft cap does not increase it. A weight over the sum of weights
  ///   changes by a factor within exp(±2e). The weighted sum of values changes by up to
  ///   (exp(2e) - 1)·Σ weight·|value - sum|, in which a sink is a key of value 0.
  /// - Weights times the scales of their values, d = |value|/|byte|, are rounded by half a step of
  ///   up to 16 times their maximum in the tile/32512.
  [[nodiscard]] double tolerance(std::size_t d, double exact) const {
    double spread = sink_ * std::abs(exact), size = 0, rounded = 0, largest = 0, bytes = 0;
    for (std::size_t i = 0; i < weight_.size(); ++i) {
      const std::size_t key = first_ + i;
      const double value = cache_.value(kv_head_, key, d);
      spread += weight_[i] * std::abs(value - exact);
      size += weight_[i] * std::abs(value);
      if (cache_.type != KvType::Q8_0) continue;
      const auto [scale, byte] = cache_.q8_value(kv_head_, key, d);
      largest = std::max(largest, weight_[i] * scale);
      bytes += std::abs(byte);
      if ((key + 1) % kKeyTile != 0 && i + 1 < weight_.size()) continue;
      rounded += 16 * largest / kSteps / 2 * bytes;
      largest = bytes = 0;
    }
    const double base = 4e-5 * std::max(1.0, size);
    return cache_.type == KvType::Q8_0 ? base + std::expm1(2 * score_error_) * spread + rounded
                                       : base;
  }

 private:
  static constexpr double kSteps = 32512;
  const Cache& cache_;
  std::size_t kv_head_, first_;
  std::vector<double> weight_;  // the total with sink_ is 1
  double sink_, score_error_ = 0;
};

void expect_softmax(const KernelSet& kernels, const Cache& cache, const Queries& queries) {
  const AttentionShape& s = cache.shape;
  const Buffer<float> got = run(kernels, cache, queries, s.tokens);
  for (std::size_t t = 0; t < s.tokens; ++t) {
    for (std::size_t head = 0; head < s.heads; ++head) {
      const ExactAttention exact(cache, queries, t, head);
      for (std::size_t d = 0; d < s.value_dim; ++d) {
        const double value = exact.value(d);
        ASSERT_NEAR(got[(t * s.heads + head) * s.value_dim + d], value, exact.tolerance(d, value))
            << "token " << t << " head " << head << " dim " << d;
      }
    }
  }
}

TEST(Attention, IsASoftmaxOverTheKeys) {
  for_each_case([](const Cache& cache, const Queries& queries) {
    expect_softmax(scalar_kernels(), cache, queries);
  });
}

TEST(Attention, ValuesMayDifferInSize) {
  const AttentionShape shapes[] = {{8, 2, 64, 64, 100, 130, 0}, {3, 1, 40, 72, 100, 9, 30}};
  for (const AttentionShape& shape : shapes) {
    for (const float outlier : {1e-6F, 1e3F}) {
      for (const KvType type : kKvTypes) {
        const Cache cache(shape, type, scalar_kernels(), outlier);
        const Queries queries(shape);
        SCOPED_TRACE(testing::Message()
                     << shape << ", type " << static_cast<int>(type) << ", " << outlier);
        expect_softmax(scalar_kernels(), cache, queries);
        const Buffer<float> expected = run(scalar_kernels(), cache, queries, 1);
        for (const KernelSet* set : available_kernels())
          EXPECT_TRUE(run(*set, cache, queries, 24) == expected) << set->isa;
      }
    }
  }
}

TEST(Attention, LargeWeightsOfSmallValuesKeepTheOthers) {  // as the first key of a text often has
  AttentionShape shape{1, 1, 64, 64, 120, 9, 0};
  for (const float outlier : {3e-2F, 1e-3F, 0.0F}) {
    const Cache cache(shape, KvType::Q8_0, scalar_kernels(), outlier);
    Queries queries(shape);
    for (std::size_t i = 0; i < queries.q.size(); ++i)  // key 7 outweighs the others by about e^9
      queries.q[i] = static_cast<float>(1.1 * cache.key(0, 7, i % shape.head_dim));
    const Buffer<float> got = run(scalar_kernels(), cache, queries, shape.tokens);
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      const ExactAttention exact(cache, queries, t, 0);
      for (std::size_t d = 0; d < shape.value_dim; ++d) {
        const double value = exact.value(d), rest = exact.size_without(7, d);
        ASSERT_NEAR(got[t * shape.value_dim + d], value,
                    std::abs(value) * 5e-4 + rest * 5e-3 + 1e-8)
            << outlier << ", rest " << rest;
      }
    }
    for (const KernelSet* set : available_kernels())
      EXPECT_TRUE(run(*set, cache, queries, shape.tokens) == got &&
                  run(*set, cache, queries, 1) == got)
          << set->isa;
  }
}

TEST(Attention, NansStayWithinTheirToken) {
  const AttentionShape shape{4, 2, 64, 64, 100, 30, 0};
  const std::size_t row = shape.heads * shape.value_dim, token = 11, head = 2;
  for (const KvType type : kKvTypes) {
    const Cache cache(shape, type, scalar_kernels());
    Queries queries(shape);
    const Buffer<float> expected = run(scalar_kernels(), cache, queries, 30);
    queries.q[(token * shape.heads + head) * shape.head_dim + 5] =
        std::numeric_limits<float>::quiet_NaN();
    for (const KernelSet* set : available_kernels()) {
      const Buffer<float> got = run(*set, cache, queries, 30);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (i / row == token && i % row / shape.value_dim == head)
          ASSERT_TRUE(std::isnan(got[i])) << set->isa;
        else
          ASSERT_EQ(got[i], expected[i]) << set->isa;
      }
    }
  }
}

TEST(Attention, KeepsANanSink) {
  const AttentionShape shape{4, 2, 64, 64, 58, 20, 7, 0, 0, true};
  for (const KvType type : kKvTypes) {
    const Cache cache(shape, type, scalar_kernels());
    Queries queries(shape);
    queries.sinks[1] = std::numeric_limits<float>::quiet_NaN();
    for (const KernelSet* set : available_kernels()) {
      for (const std::size_t tokens_per_call : {1, 20}) {
        const Buffer<float> got = run(*set, cache, queries, tokens_per_call);
        for (std::size_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(std::isnan(got[i]), i / shape.value_dim % shape.heads == 1) << set->isa;
      }
    }
  }
}

TEST(Attention, ABadScaleAffectsOnlyPositionsThatSeeIt) {
  const AttentionShape shape{2, 1, 64, 64, 100, 40, 30};
  constexpr std::size_t kBad = 110;  // a position
  const Queries queries(shape);
  Cache cache(shape, KvType::Q8_0, scalar_kernels());
  const Buffer<float> whole = run(scalar_kernels(), cache, queries, 40);
  const std::size_t row = value_row_bytes(KvType::Q8_0, shape.value_dim), slot = kBad % kKeyTile;
  std::byte* const scale =
      cache.v.data() + (kBad - slot) * row + slot * sizeof(F16Bits);  // dims 0 to 31
  for (const std::uint16_t bits : {0x7C00, 0x7E00}) {                 // infinity, NaN
    std::memcpy(scale, &bits, sizeof bits);
    for (const KernelSet* set : available_kernels()) {
      for (const std::size_t tokens_per_call : {1, 40}) {
        const Buffer<float> got = run(*set, cache, queries, tokens_per_call);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::size_t pos = shape.first_pos + i / (shape.heads * shape.value_dim);
          if (pos >= kBad && shape.first_key(pos) <= kBad && i % shape.value_dim < 32)
            ASSERT_TRUE(std::isnan(got[i])) << set->isa;
          else
            ASSERT_EQ(got[i], whole[i]) << set->isa;
        }
      }
    }
  }
}

/// Keys that queries of -1 in the first 32 dims do not like: a score is very small, or -infinity.
Cache with_bad_keys(const AttentionShape& shape, KvType type, std::size_t begin, std::size_t end,
                    bool infinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Beyond what f16 holds, and a Q8_0 block's scale.
  const float bad = !infinite             ? type == KvType::Q8_0 ? 7e6F : 6e4F
                    : type == KvType::F32 ? kInfinity
                                          : 1e30F;
  Cache cache(shape, type, scalar_kernels());
  for (std::size_t pos = begin; pos < end; ++pos) cache.replace(pos, Cache::Part::Key, bad);
  return cache;
}

/// The bad key is the first one that a query sees, the only one in its tile or segment, or all of
/// this.
TEST(Attention, AKeyOfScoreMinusInfinityHasNoWeight) {
  struct Case {
    AttentionShape shape;
    std::size_t begin, end;  // bad keys
  };
  const Case cases[] = {{{3, 1, 64, 40, 95, 30, 40}, 63, 64},
                        {{3, 1, 64, 40, 95, 30, 80}, 63, 64},
                        {{2, 1, 32, 40, 2080, 12, 40}, 2047, 2048},
                        {{2, 1, 32, 40, 2080, 12, 40, 0, 0, true}, 2045, 2048},
                        {{1, 1, 32, 16, 4094, 5, 2050}, 2047, 4096}};
  for (const auto& [shape, begin, end] : cases) {
    for (const KvType type : kKvTypes) {
      Queries queries(shape);
      for (std::size_t i = 0; i < queries.q.size(); ++i)
        if (i % shape.head_dim < 32) queries.q[i] = -1;
      const Cache small = with_bad_keys(shape, type, begin, end, false),
                  infinite = with_bad_keys(shape, type, begin, end, true);
      const Buffer<float> expected = run(scalar_kernels(), small, queries, 1);
      for (const KernelSet* set : available_kernels()) {
        SCOPED_TRACE(testing::Message()
                     << set->isa << ' ' << shape << ", type " << static_cast<int>(type));
        EXPECT_TRUE(run(*set, small, queries, 30) == expected);
        for (const std::size_t tokens_per_call : {1, 30}) {
          EXPECT_TRUE(run(*set, infinite, queries, tokens_per_call) == expected);
          EXPECT_TRUE(run_segments(*set, infinite, queries, tokens_per_call) == expected);
        }
      }
    }
  }
}

TEST(Attention, IgnoresASinkOfMinusInfinity) {
  AttentionShape shape{4, 2, 64, 64, 58, 20, 7, 0, 0, true};
  for (const KvType type : kKvTypes) {
    const Cache cache(shape, type, scalar_kernels());
    Queries queries(shape);
    std::fill(queries.sinks.begin(), queries.sinks.end(), -std::numeric_limits<float>::infinity());
    AttentionShape without = shape;
    without.sinks = false;
    const Cache same(without, type, scalar_kernels());
    const Buffer<float> expected = run(scalar_kernels(), same, queries, 20);
    for (const KernelSet* set : available_kernels())
      for (const std::size_t tokens_per_call : {1, 20})
        EXPECT_TRUE(run(*set, cache, queries, tokens_per_call) == expected) << set->isa;
  }
}

TEST(Attention, NanKeysAffectOnlyTheirReaders) {
  const AttentionShape shape{2, 1, 64, 64, 100, 40, 30};
  constexpr std::size_t kBad = 110;  // a position
  const Queries queries(shape);
  for (const KvType type : {KvType::F16, KvType::F32}) {
    const Cache good(shape, type, scalar_kernels());
    const Buffer<float> whole = run(scalar_kernels(), good, queries, 40);
    for (const bool key : {true, false}) {
      Cache cache(shape, type, scalar_kernels());
      cache.replace(kBad, key ? Cache::Part::Key : Cache::Part::Value,
                    std::numeric_limits<float>::quiet_NaN());
      for (const KernelSet* set : available_kernels()) {
        for (const std::size_t tokens_per_call : {1, 40}) {
          const Buffer<float> got = run(*set, cache, queries, tokens_per_call);
          for (std::size_t i = 0; i < got.size(); ++i) {
            const std::size_t pos = shape.first_pos + i / (shape.heads * shape.value_dim);
            if (pos >= kBad && shape.first_key(pos) <= kBad && (key || i % shape.value_dim < 32))
              ASSERT_TRUE(std::isnan(got[i])) << set->isa;
            else
              ASSERT_EQ(got[i], whole[i]) << set->isa;
          }
        }
      }
    }
  }
}

TEST(Attention,
     AQueryOfZerosSeesItsKeysAlike) {  // its scale is zero, and what it does not see is hidden
  const AttentionShape shapes[] = {{2, 1, 64, 64, 10, 70, 9},
                                   {3, 1, 40, 72, 100, 5, 0, 0, 1.5F, true}};
  for (const AttentionShape& shape : shapes) {
    for (const KvType type : kKvTypes) {
      const Cache cache(shape, type, scalar_kernels());
      Queries queries(shape);
      std::fill(queries.q.begin(), queries.q.end(), 0.0F);
      const Buffer<float> expected = run(scalar_kernels(), cache, queries, 1);
      for (const KernelSet* set : available_kernels()) {
        SCOPED_TRACE(testing::Message() << set->isa << ", type " << static_cast<int>(type));
        expect_softmax(*set, cache, queries);
        EXPECT_TRUE(run(*set, cache, queries, 24) == expected);
      }
    }
  }
}

}  // namespace
}  // namespace cria
