// Contexts longer than one segment of keys: the bits equal those of a single walk over all keys,
// for any assignment of segments to threads.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "kernels/attention/attention.h"
#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

constexpr std::size_t kBefore = 2 * kKeySegment + 2, kDecoded = 3, kTogether = 5,
                      kAllTokens = kBefore + kDecoded + kTogether;

std::vector<TokenId> some_tokens() {
  std::vector<TokenId> tokens(kAllTokens);
  for (std::size_t i = 0; i < kAllTokens; ++i) tokens[i] = static_cast<TokenId>(3 + i * i % 290);
  return tokens;
}

/// One layer, so that thousands of positions cost little.
std::shared_ptr<const Model> tiny() {
  TinyModel model;
  model.n_layers = 1;
  model.n_kv_heads = {2};
  return model.load();
}

std::vector<float> row(const std::vector<float>& logits, std::size_t position) {
  const std::size_t width = logits.size() / kAllTokens;
  const float* const begin = logits.data() + position * width;
  return {begin, begin + width};
}

TEST(Segments, SameBitsOnAnyNumberOfThreads) {
  const std::shared_ptr<const Model> model = tiny();
  const std::vector<TokenId> tokens = some_tokens();
  const std::span<const TokenId> all(tokens);
  for (const KvType type : {KvType::F16, KvType::Q8_0}) {
    SessionOptions options{.n_ctx = kAllTokens, .threads = 1, .kv_type = type};
    const std::vector<float> expected = all_logits(*model, options, tokens);
    for (const std::uint32_t threads : {1, 2, 3}) {
      options.threads = threads;
      Session session(*model, options);
      EXPECT_TRUE(same_bytes(copy(session.eval(all.first(kBefore))), row(expected, kBefore - 1)));
      for (std::size_t i = kBefore; i < kBefore + kDecoded; ++i)
        EXPECT_TRUE(same_bytes(copy(session.eval(all.subspan(i, 1))), row(expected, i)))
            << threads << " threads, position " << i;
      EXPECT_TRUE(
          same_bytes(copy(session.eval(all.last(kTogether))), row(expected, kAllTokens - 1)))
          << threads;
    }
  }
}

TEST(Segments, SequencesMayHaveSomeMoreThanOthers) {
  const std::shared_ptr<const Model> model = tiny();
  const std::vector<TokenId> tokens = some_tokens();
  const std::span<const TokenId> all(tokens);
  const std::vector<float> expected =
      all_logits(*model, {.n_ctx = kAllTokens, .threads = 1}, tokens);
  EngineOptions options;
  options.n_ctx = kAllTokens;
  options.threads = 3;
  options.sequences = 3;
  Engine engine(*model, options);
  const std::size_t lengths[] = {kBefore, 30, kKeySegment};
  std::vector<Sequence> sequences;
  Batch batch(engine);
  for (std::uint64_t i = 0; i < 3; ++i) {
    sequences.emplace_back(engine, i);
    for (std::size_t at = 0; at < lengths[i]; at += 512) {
      batch.clear();
      const auto piece = all.subspan(at, std::min<std::size_t>(512, lengths[i] - at));
      batch.add(sequences[i], piece, piece.size());
      batch.forward();
    }
  }
  batch.clear();
  for (std::size_t i = 0; i < 3; ++i) batch.add(sequences[i], all.subspan(lengths[i], 1), 0);
  batch.forward();
  const std::vector<float> got = copy(batch.logits(0, 3));
  const std::size_t width = got.size() / 3;
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(same_bytes({got.begin() + static_cast<std::ptrdiff_t>(i * width),
                            got.begin() + static_cast<std::ptrdiff_t>((i + 1) * width)},
                           row(expected, lengths[i])))
        << "sequence " << i;
}

}  // namespace
}  // namespace cria::test
