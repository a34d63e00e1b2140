// Recurrent layers on several ranks: each has the states of its heads and channels, and the bytes
// equal those of a single rank.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/engine.h"
#include "engine/execute/graph_parts.h"
#include "engine/session.h"
#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"
#include "tests/engine/distribute/thread_ranks.h"
#include "tests/model/temporary_directory.h"

namespace cria::test {
namespace {

class RecurrentRanks : public testing::TestWithParam<const char*> {
 protected:
  RecurrentRanks() { TinyArchitecture(architecture_case(GetParam())).write(path_); }
  [[nodiscard]] std::shared_ptr<const Model> load() const { return Model::load(path_, on_team()); }

 private:
  const TemporaryDirectory directory_;
  const std::string path_ = directory_.file("model.gguf");
};

std::vector<TokenId> text_of(std::size_t n, std::size_t first = 0) {
  std::vector<TokenId> text;
  for (std::size_t i = first; i < first + n; ++i)
    text.push_back(static_cast<TokenId>((7 * i + i * i) % TinyArchitecture::kVocabulary));
  return text;
}

EngineOptions small_engine() {
  EngineOptions options;
  options.n_ctx = options.rope_ctx = 256;
  options.n_batch = 90;
  options.threads = 1;
  options.sequences = 3;
  return options;
}

// Several blocks and pages; single tokens; a fork, of which tokens are dropped again; a prefix that
// is found at a snapshot; several sequences in a batch.
std::vector<float> logits_of_sequences(const Model& model) {
  Engine engine(model, small_engine());
  Batch batch(engine);
  std::vector<float> all;
  const auto evaluate = [&](std::size_t wanted) {
    batch.forward();
    const std::span<const float> rows = batch.logits(0, wanted);
    all.insert(all.end(), rows.begin(), rows.end());
    batch.clear();
  };
  const auto read = [&](Sequence& sequence, std::span<const TokenId> tokens) {
    batch.add(sequence, tokens, tokens.size() - 1);
    evaluate(1);
  };
  const std::vector<TokenId> text = text_of(150);
  Sequence first(engine);
  EXPECT_EQ(first.reuse(text), 0U);
  first.expect_departure(140);
  read(first, std::span(text).first(70));
  read(first, std::span(text).subspan(70));
  read(first, text_of(1, 3));
  Sequence second = first.fork();
  read(second, text_of(5, 9));
  EXPECT_EQ(second.truncate(153), 153U);
  Sequence third(engine);
  EXPECT_EQ(third.reuse(std::span(text).first(132)), 128U);
  batch.add(first, text_of(2, 5), 0);
  batch.add(second, text_of(3, 1), 2);
  batch.add(third, std::span(text).subspan(128), 20);
  evaluate(5);
  return all;
}

TEST_P(RecurrentRanks, HaveTheBytesOfOne) {
  const std::vector<float> alone = logits_of_sequences(*load());
  for (const Shares& shares : {Shares{1, 1}, Shares{2, 1}, Shares{1, 1, 1}, Shares(4, 1)}) {
    const RankTeam team(static_cast<unsigned>(shares.size()), shares);
    EXPECT_TRUE(same_bytes(alone, logits_of_sequences(*load()))) << shares.size();
  }
}

// Right and wrong drafts, and a context shift, which evaluates positions again.
std::vector<TokenId> drafted_answer(const Model& model, std::vector<TokenId> expected) {
  SessionOptions with;
  with.n_ctx = with.rope_ctx = 96;
  with.n_batch = 33;
  with.threads = 1;
  with.context_shift = true;
  Session session(model, with);
  GenerateOptions options;
  options.max_tokens = 70;
  options.ignore_eos = true;
  options.sampler.temperature = 0;
  options.speculate = expected.empty() ? Speculate::Off : Speculate::Lookup;
  for (std::size_t i = 6; i < expected.size(); i += 9) expected[i] ^= 1;
  options.expected = std::move(expected);
  const GenerateResult result = session.generate(text_of(40), options);
  EXPECT_EQ(result.shifts, 1U);
  EXPECT_EQ(result.accepted > 0, !options.expected.empty());
  return result.tokens;
}

TEST_P(RecurrentRanks, DropDraftsAsOne) {
  const std::vector<TokenId> alone = drafted_answer(*load(), {});
  const RankTeam team(2);
  EXPECT_EQ(drafted_answer(*load(), alone), alone);
}

// A recurrent layer gathers what its last product reads, and that product: attention, too, if it
// has a gate. Nothing travels between its projections and its state.
TEST(GraphParts, RecurrentLayersGatherTwice) {
  const auto gathered = [](const char* name) {
    const auto model = TinyArchitecture(architecture_case(name)).load();
    const GraphParts parts = GraphParts::of(model->graph(), {1, 1}, 1);
    std::set<std::string> names;
    for (std::size_t i = 0; i < parts.nodes.size(); ++i)
      if (const std::string& node = model->graph().nodes[i].name;
          parts.nodes[i].gathered && node.find(".ffn_") == std::string::npos)
        names.insert(node.substr(node.rfind('.') + 1));
    return names;
  };
  EXPECT_EQ(gathered("qwen35"), (std::set<std::string>{"attn_gate_mul", "attn_output", "output",
                                                       "ssm_gate", "ssm_out"}));
  EXPECT_EQ(gathered("falcon_h1"),
            (std::set<std::string>{"attn", "attn_output", "output", "ssm_gate", "ssm_out"}));
  EXPECT_EQ(gathered("mamba"),  // its other inputs are products of all convolutions
            (std::set<std::string>{"output", "ssm_conv1d", "ssm_gate", "ssm_out"}));
  EXPECT_EQ(gathered("lfm2"),
            (std::set<std::string>{"attn", "attn_output", "conv", "out_proj", "output"}));
}

// Observers see complete values, also of columns that several ranks compute.
std::map<std::string, std::vector<float>> observed_values(const Model& model) {
  Engine engine(model, small_engine());
  std::map<std::string, std::vector<float>> all;
  engine.observe([&](const Node& node, std::span<const float> values, std::size_t) {
    all[node.name].insert(all[node.name].end(), values.begin(), values.end());
  });
  Sequence sequence(engine);
  Batch batch(engine);
  for (const std::size_t n : {7U, 1U}) {
    batch.clear();
    batch.add(sequence, text_of(n), 0);
    batch.forward();
  }
  return all;
}

TEST_P(RecurrentRanks, ObserversSeeEverything) {
  const auto alone = observed_values(*load());
  const RankTeam team(3);
  for (const auto& [node, values] : observed_values(*load()))
    EXPECT_TRUE(same_bytes(values, alone.at(node))) << node;
}

// Each rank has half of the heads and channels. Only where key heads go round, both ranks have all
// of the keys, half of the channels.
TEST_P(RecurrentRanks, DivideTheStates) {
  const auto model = load();
  const Graph& graph = model->graph();
  const Shares shares{1, 1};
  const std::array parts = {GraphParts::of(graph, shares, 0), GraphParts::of(graph, shares, 1)};
  for (const Node& node : graph.nodes) {
    if (node.facts.state == kNoIndex) continue;
    const std::size_t units = graph.states[node.facts.state].units,
                      first = parts[0].held.states[node.facts.state],
                      second = parts[1].held.states[node.facts.state];
    const bool keys =
        std::string_view(GetParam()).starts_with("qwen35") && node.as<ConvolutionOp>() != nullptr;
    EXPECT_EQ(first, keys ? units * 3 / 4 : units / 2) << node.name;
    EXPECT_EQ(first, second) << node.name;
  }
  const std::size_t whole = engine_memory(*model, small_engine()).kv;
  const RankTeam team(2);
  EXPECT_LE(engine_memory(*load(), small_engine()).kv, whole * 6 / 10);
  EXPECT_EQ(most_held(graph, shares).states, parts[0].held.states);
}

INSTANTIATE_TEST_SUITE_P(All, RecurrentRanks,
                         testing::Values("lfm2", "lfm2moe", "qwen35", "qwen35moe", "qwen3next",
                                         "granitehybrid", "kimi_linear", "jamba", "mamba2", "mamba",
                                         "nemotron_h_moe", "falcon_h1"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace cria::test
