// Memory and speed of machines that are not there, by hand.
#include "engine/distribute/machines_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/engine.h"
#include "model/error.h"
#include "tests/engine/architectures/architecture_cases.h"
#include "tests/engine/demo.h"
#include "tests/engine/distribute/thread_ranks.h"
#include "tests/engine/tiny_model.h"

namespace cria::test {
namespace {

const Graph& graph() { return demo_model().graph(); }

PlannedWork small_work() {
  PlannedWork work;
  work.n_ctx = 128;
  work.prompt = 8;
  work.n_batch = 8;
  return work;
}

/// A network that takes no time.
constexpr Link kInstant{0, 1e300};
constexpr MachineRates kRates{1e9, 2e9, {}, {}};

double sum_of(std::uint64_t (Node::*figure)() const, std::size_t end) {
  double sum = 0;
  for (std::size_t i = 0; i < end; ++i) sum += static_cast<double>((graph().nodes[i].*figure)());
  return sum;
}

/// Bytes gathered for one token, and the number of nodes whose outputs are gathered.
struct Gathered {
  double bytes = 0, times = 0;
};
Gathered gathered(std::size_t machines) {
  const GraphParts parts = GraphParts::of(graph(), Shares(machines, 1), 0);
  Gathered sum;
  for (std::size_t i = 0; i < parts.nodes.size(); ++i) {
    if (!parts.nodes[i].gathered) continue;
    sum.bytes += static_cast<double>(gathered_bytes(parts.nodes[i], parts.nodes[i].forms));
    ++sum.times;
  }
  return sum;
}

TEST(MachinesPlan, LinksByNameAndByFigures) {
  EXPECT_DOUBLE_EQ(parse_link("10gbe").rate, 1.25e9);
  EXPECT_LT(parse_link("100gbe-ib").latency, parse_link("1gbe").latency);
  EXPECT_DOUBLE_EQ(parse_link("50,10").latency, 50e-6);
  EXPECT_DOUBLE_EQ(parse_link("0.5,8").rate, 1e9);
  for (const char* const wrong :
       {"", "2gbe", "50", "50,", ",10", "50,10,1", "0,1", "1,-1", "nan,1", "1,inf", "5 ,1"})
    EXPECT_THROW(parse_link(wrong), Error) << wrong;
}

TEST(MachinesPlan, OneMachineNeverWaits) {
  const MachinesPlan plan = plan_machines(graph(), small_work(), kRates, {1, 1}, 1);
  EXPECT_EQ(plan.decode.link, 0);
  EXPECT_EQ(plan.prompt.link, 0);
  EXPECT_DOUBLE_EQ(plan.decode.seconds, sum_of(&Node::weight_bytes, graph().nodes.size()) / 1e9);
  const std::size_t sparse = graph().first_sparse;
  const double all = sum_of(&Node::macs, sparse),
               few = sum_of(&Node::macs, graph().nodes.size()) - all;
  EXPECT_NEAR(plan.prompt.seconds, (8 * all + few) / 8 / 2e9, 1e-12);
}

TEST(MachinesPlan, PartsAreComputedSideBySide) {
  const double one = plan_machines(graph(), small_work(), kRates, kInstant, 1).decode.seconds;
  const double two = plan_machines(graph(), small_work(), kRates, kInstant, 2).decode.seconds;
  EXPECT_GE(two, one / 2);
  EXPECT_LT(two, one * 0.55);
}

TEST(MachinesPlan, WaitsForLatencyAndBytes) {
  const Gathered sum = gathered(4);
  const MachinesPlan late = plan_machines(graph(), small_work(), kRates, {1, 1e300}, 4);
  EXPECT_NEAR(late.decode.link, sum.times + 2 * 2,
              1e-9);  // and two packets along a tree of two steps
  const MachinesPlan slow = plan_machines(graph(), small_work(), kRates, {0, 1e3}, 4);
  EXPECT_NEAR(slow.decode.link, sum.bytes * 3 / 4 / 1e3, 1e-9);
  const MachinesPlan instant = plan_machines(graph(), small_work(), kRates, kInstant, 4);
  EXPECT_NEAR(slow.decode.seconds, instant.decode.seconds + slow.decode.link, 1e-9);
  EXPECT_LT(slow.prompt.link, slow.decode.link);  // logits of one token in eight
}

TEST(MachinesPlan, LongPromptsAreComputedInBatches) {
  PlannedWork work = small_work();
  work.prompt = 20;
  const double link = plan_machines(graph(), work, kRates, {1, 1e300}, 2).prompt.link;
  EXPECT_NEAR(link, 3 * (gathered(2).times + 2) / 20, 1e-9);
}

TEST(MachinesPlan, OtherWorkIsDividedByHeadsOrNotAtAll) {
  MachineRates rates{1e300, 1e300, {}, {}};
  rates.decode.attention = 3;
  EXPECT_NEAR(plan_machines(graph(), small_work(), rates, kInstant, 1).decode.seconds, 3 * 8, 1e-9);
  EXPECT_NEAR(plan_machines(graph(), small_work(), rates, kInstant, 2).decode.seconds, 3 * 8 / 2,
              1e-9);
  rates.decode = {.undivided = 5};
  EXPECT_NEAR(plan_machines(graph(), small_work(), rates, kInstant, 2).decode.seconds, 5, 1e-9);
  rates.decode = {.gathered_byte = 2};
  EXPECT_NEAR(plan_machines(graph(), small_work(), rates, kInstant, 2).decode.seconds,
              2 * gathered(2).bytes, 1e-6);
}

// Tokens of a prompt of eight see 4 positions on average without a window, and 4 - 4²/(2·8) with a
// window of four.
TEST(MachinesPlan, LayersWithAWindowSeeNoFurther) {
  Graph windowed = graph();
  for (std::size_t i = 0; i < windowed.caches.size(); i += 2) windowed.caches[i].window = 4;
  MachineRates rates{1e300, 1e300, {}, {}};
  rates.decode.attention = rates.prompt.attention = 3;
  const MachinesPlan plan = plan_machines(windowed, small_work(), rates, kInstant, 1);
  EXPECT_NEAR(plan.decode.seconds, 3 * (4 + 8) / 2.0, 1e-9);
  EXPECT_NEAR(plan.prompt.seconds, 3 * (3 + 4) / 2.0, 1e-9);
}

TEST(MachinesPlan, MemoryMatchesAnEngine) {
  const PlannedWork work = small_work();
  EngineOptions options;
  options.n_ctx = 128;
  options.n_batch = 8;
  options.threads = 1;
  options.prefix_cache = false;
  for (const unsigned machines : {2U, 4U}) {
    const MachinesPlan plan = plan_machines(graph(), work, kRates, kInstant, machines);
    const RankTeam team(machines);
    const EngineMemory memory = engine_memory(*Model::load(demo_model().path(), on_team()),
                                              options);  // rank 0 has the most
    EXPECT_EQ(plan.weights, memory.file) << machines;
    EXPECT_EQ(plan.kv, memory.kv) << machines;
    EXPECT_EQ(plan.work, memory.work + kExchanges * kExchangeBytes) << machines;
  }
}

TEST(MachinesPlan, PredictsTheExecutorsTraffic) {
  const RankTeam team(2);
  const auto model = Model::load(demo_model().path(), on_team());
  SessionOptions options;
  options.n_ctx = 16;
  options.threads = 1;
  Session session(*model, options);
  const std::vector<TokenId> one = {5};
  session.eval(one);
  const std::size_t before = team.gathered();
  session.eval(one);
  const double slow = plan_machines(graph(), small_work(), kRates, {0, 1}, 2).decode.link;
  EXPECT_NEAR(slow, static_cast<double>(team.gathered() - before) / 2, 1e-3);
}

TEST(MachinesPlan, ThisMachineCanBeMeasured) {
  const MachineRates rates = measure_machine(demo_model(), small_work());
  EXPECT_GT(rates.read, 0);
  EXPECT_GT(rates.products, 0);
  for (const auto& other : {rates.decode, rates.prompt}) {
    EXPECT_GT(other.attention, 0);
    EXPECT_GT(other.undivided, 0);
  }
}

// Each machine has its part of the states and of the time that they take.
TEST(MachinesPlan, DividesRecurrentLayers) {
  const auto model = TinyArchitecture(architecture_case("mamba2")).load();
  const MachineRates rates = measure_machine(*model, small_work());
  EXPECT_GT(rates.decode.recurrent, 0);
  EXPECT_GT(rates.prompt.recurrent, 0);
  const MachineRates only{1e300, 1e300, {0, 1, 0, 0}, {0, 1, 0, 0}};
  const auto plan = [&](std::size_t machines) {
    return plan_machines(model->graph(), small_work(), only, kInstant, machines);
  };
  EXPECT_DOUBLE_EQ(plan(1).decode.seconds, 1);
  EXPECT_DOUBLE_EQ(plan(2).decode.seconds, 0.5);
  EXPECT_EQ(plan(2).kv, plan(1).kv / 2);
}

/// Returns the memory that each of `machines` machines needs; half as many need more.
std::size_t memory_of(const Model& model, const PlannedWork& work, std::size_t machines) {
  const MachinesPlan plan = plan_machines(model.graph(), work, kRates, kInstant, machines);
  return plan.weights + plan.kv + WorkMemory::bytes(model.graph(), work_shape(model.graph(), work));
}

// With little memory per machine, there are more machines than heads.
TEST(MachinesPlan, ASmallPartHasHeadsToo) {
  const PlannedWork work = small_work();
  const auto hybrid = TinyArchitecture(architecture_case("jamba")).load();
  for (const Model* const model : {&demo_model(), hybrid.get()}) {
    const MachineRates rates = measure_machine(*model, work, memory_of(*model, work, 16));
    for (const auto& other : {rates.decode, rates.prompt}) {
      EXPECT_TRUE(std::isfinite(other.attention));
      EXPECT_GT(other.attention, 0);
    }
  }
  EXPECT_THROW((void)measure_machine(demo_model(), work, 1), Error);
}

// Rank 0 has the first layer's heads, rank 1 the second's.
TEST(MachinesPlan, SkipsLayersWithoutHeads) {
  TinyModel tiny;
  tiny.layer_heads = {4, 1};
  tiny.n_kv_heads = {4, 1};
  tiny.n_ff = 4096;
  const auto model = tiny.load();
  const GraphParts parts = GraphParts::of(model->graph(), Shares(4, 1), 0);
  ASSERT_EQ(parts.held.heads, (std::vector<std::size_t>{1, 0}));
  const MachineRates rates =
      measure_machine(*model, small_work(), memory_of(*model, small_work(), 4));
  for (const auto& other : {rates.decode, rates.prompt}) {
    EXPECT_TRUE(std::isfinite(other.attention));
    EXPECT_GT(other.attention, 0);
  }
}

}  // namespace
}  // namespace cria::test
