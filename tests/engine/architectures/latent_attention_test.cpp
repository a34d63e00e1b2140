// Latent attention (DeepSeek): split and joint projections, growing queries, many heads.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"
#include "tests/engine/session/batch_mix.h"

namespace cria::test {
namespace {

// Within the first steps the factor is 1; then it is that of queries made larger.
TEST(LatentAttention, QueriesMayGrow) {
  TinyArchitecture tiny(architecture_case("deepseek2_split"));
  const auto run = [&] {
    return architecture_logits(*tiny.load(), {.n_ctx = 64, .threads = 1}, 24);
  };
  const std::vector<float> want = run();
  tiny.keys["deepseek2.attention.temperature_scale"] = 0.5F;
  EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("temperature_length"), std::string::npos);
  tiny.keys["deepseek2.attention.temperature_length"] = 16U;
  const std::vector<float> got = run();
  const auto same = std::ranges::mismatch(got, want).in1 - got.begin();
  EXPECT_EQ(same / TinyArchitecture::kVocabulary, 16) << "the first position that differs";
}

// ik_llama.cpp writes the halves as well as the joint projection, with two dimensions.
TEST(LatentAttention, SplitProjectionsMatchTheJointOne) {
  TinyArchitecture tiny(architecture_case("deepseek2"));
  const auto want = tiny.load();
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name = "blk." + std::to_string(layer) + ".attn_";
    tiny.tensors.push_back({name + "k_b.weight", {32, 32 * 4}});
    tiny.tensors.push_back({name + "v_b.weight", {32, 16 * 4}});
  }
  const auto got = tiny.load();
  EXPECT_EQ(got->graph().to_string(), want->graph().to_string());
  EXPECT_EQ(got->warnings(), want->warnings());
  std::erase_if(tiny.tensors,
                [](const auto& tensor) { return tensor.name == "blk.1.attn_kv_b.weight"; });
  EXPECT_NE(error_of([&] { (void)tiny.load(); }).find("(tensor blk.1.attn_k_b.weight)"),
            std::string::npos);
}

// Products by head and group of tokens: more pieces of work than one distribution to threads.
TEST(LatentAttention, ManyHeadsOfManyTokens) {
  constexpr std::size_t kSequences = 32, kTokens = 64;
  const auto model = TinyArchitecture({"heads",
                                       "deepseek2",
                                       {{"block_count", 1U},
                                        {"attention.head_count", 1024U},
                                        {"attention.head_count_kv", 1024U},
                                        {"attention.kv_lora_rank", 1U},
                                        {"attention.key_length", 3U},
                                        {"attention.value_length", 1U},
                                        {"rope.dimension_count", 2U}},
                                       {},
                                       0})
                         .load();
  EngineOptions options;
  options.n_ctx = kTokens;
  options.n_batch = kSequences * kTokens;
  options.threads = 2;
  options.sequences = kSequences;
  Engine engine(*model, options);
  ASSERT_EQ(engine.options().n_batch, options.n_batch) << "not cut for want of memory";
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < kTokens; ++i)
    tokens.push_back(static_cast<TokenId>((i * i + 3 * i) % 40));
  std::vector<Sequence> sequences;
  Batch batch(engine);
  for (std::size_t i = 0; i < kSequences; ++i) batch.add(sequences.emplace_back(engine), tokens, 0);
  batch.forward();
  const std::vector<float> alone =
      architecture_logits(*model, {.n_ctx = kTokens, .threads = 1}, kTokens);
  for (const std::size_t row : {std::size_t{0}, kSequences * kTokens - 1}) {
    const std::span<const float> logits = batch.logits(row, row + 1);
    EXPECT_TRUE(std::ranges::equal(logits, std::span(alone).subspan(row % kTokens * 40, 40)))
        << row;
  }
}

}  // namespace
}  // namespace cria::test
