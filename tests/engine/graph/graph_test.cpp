// The graph as it is printed, timed and observed.
#include "engine/graph/graph.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/architectures/architecture.h"
#include "engine/graph/rope.h"
#include "tests/engine/demo.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

TEST(Graph, PrintsOneLinePerNode) {
  const std::string text = demo_model().graph().to_string();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 8 * 7 + 2);
  EXPECT_NE(text.find("token_embd: embed x <- tokens, token_embd.weight Q8_0[256, 4096]\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("blk.3.attn_norm: norm norm+q8x32 <- x, rms norm of 256, eps 1e-05, "
                      "blk.3.attn_norm.weight F32[256]\n"),
            std::string::npos);
  EXPECT_NE(text.find("blk.7.attn_qkv: heads q, k, v, kv cache 7 <- norm, 4 heads of 64, 2 kv "
                      "heads of 64 and 64, "
                      "rope adjacent (64 values, base 10000), blk.7.attn_q.weight Q8_0[256, 256], "
                      "blk.7.attn_k.weight "
                      "Q8_0[256, 128], blk.7.attn_v.weight Q8_0[256, 128]\n"),
            std::string::npos);
  EXPECT_NE(text.find("output: matmul logits <- norm, token_embd.weight Q8_0[256, 4096]\n"),
            std::string::npos);
}

TEST(Graph, CountsWork) {
  std::uint64_t macs = 0;
  std::uint64_t bytes = 0;
  for (const Node& node : demo_model().graph().nodes) {
    macs += node.macs();
    bytes += node.weight_bytes();
  }
  EXPECT_EQ(macs, 8U * (2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 768) + 256 * 4096);
  EXPECT_EQ(bytes, macs / 32 * 34);
}

TEST(Graph, NamesTheTensorWithoutKernel) {
  KernelSet none = *available_kernels().back();
  none.matmul = [](DType) { return MatMulKernel{}; };
  const std::string error =
      error_of([&] { (void)build_graph(demo_model().file(), demo_model().config(), none); });
  EXPECT_NE(error.find("Q8_0"), std::string::npos);
  EXPECT_NE(error.find("(tensor blk.0.attn_q.weight)"), std::string::npos) << error;
}

TEST(Graph, IsObservedAndTimed) {
  Session session(demo_model(), {});
  session.profile(true);
  std::map<std::string, std::vector<float>> seen;
  session.observe([&](const Node& node, std::span<const float> values, std::size_t width) {
    EXPECT_EQ(values.size() % width, 0U);
    seen[node.name] = copy(values);
  });
  const std::vector<float> logits = copy(session.eval(many_tokens(10)));
  EXPECT_EQ(seen.size(), session.graph().nodes.size());
  EXPECT_EQ(seen["output"], logits);
  EXPECT_EQ(seen["blk.0.attn_norm"].size(), 10U * 256);
  EXPECT_EQ(seen["blk.7.ffn_down"].size(), 256U)
      << "the last layer is computed for the last token only";
  for (const NodeTime& time : session.profile()) EXPECT_GT(time.seconds, 0) << time.node->name;
  session.profile(false);
  for (const NodeTime& time : session.profile()) EXPECT_EQ(time.seconds, 0);
}

TEST(Rope, Yarn) {
  TinyModel tiny;
  tiny.keys = {{"llama.rope.scaling.type", std::string("yarn")},
               {"llama.rope.scaling.factor", 4.F},
               {"llama.rope.scaling.original_context_length", std::uint32_t{64}}};
  const auto model = tiny.load();
  const RopeTable& table = model->graph().ropes.at(0);
  ASSERT_EQ(table.width(), 16U);
  std::vector<float> row(16);
  table.fill(3, 256, row.data());
  // The paper's formula is d(turns) = 16·ln(64/(2π·turns)) / (2·ln 10000). It is -0.99 for 32
  // turns, so the ramp starts at 0, and 2.02 for one turn, so it ends at 3. Frequencies are
  // multiplied by 1, 2/3, 1/3 and 0; the magnitude is 1 + 0.1·ln 4.
  const double magnitude = 1 + 0.1 * std::log(4.0);
  for (std::size_t i = 0; i < 8; ++i) {
    const double keep = i < 3 ? 1 - static_cast<double>(i) / 3 : 0;
    const double angle =
        3 * std::pow(10000.0, -static_cast<double>(i) / 8) * (keep + (1 - keep) / 4);
    EXPECT_NEAR(row[2 * i], std::cos(angle) * magnitude, 1e-6) << i;
    EXPECT_NEAR(row[2 * i + 1], std::sin(angle) * magnitude, 1e-6) << i;
  }
}

}  // namespace
}  // namespace cria::test
