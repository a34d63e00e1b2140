// Experts: which tokens take which, and their products. Each token's sum runs over its experts in
// ascending order, and an expert's products do not depend on which tokens are computed together.
#include <algorithm>
#include <array>
#include <limits>

#include "engine/execute/pass.h"
#include "kernels/simd/round.h"

namespace cria {
namespace {

// Tokens of one expert that are computed together, and rows of its last matrix.
constexpr std::size_t kExpertTokens = 128, kExpertRows = 256;
constexpr float kTaken = -std::numeric_limits<float>::infinity();

std::string count_text(std::size_t used, std::size_t n) {
  return ", " + std::to_string(used) + " of " + std::to_string(n) + " experts";
}

std::string weights_text(bool weight_at_input) {
  return weight_at_input ? ", weights at the input" : "";
}

NodeFacts products_of_experts(std::string text, const Graph& graph, const Node& node, std::size_t n,
                              std::size_t used) {
  NodeFacts facts{std::move(text), "", ""};
  facts.group = n;
  facts.group_used = used;
  facts.division = {UnitsOfRank::Share, graph.values[node.out].width, 1, 0, kRowTile};
  return facts;
}

// Returns the index of the largest of n scores; among equal ones, the first.
std::size_t best(const float* scores, std::size_t n) {
  return static_cast<std::size_t>(std::max_element(scores, scores + n) - scores);
}

// Excludes all groups but the best from the choice.
void keep_best_groups(const RouteOp& op, float* scores) {
  const std::size_t size = op.n / op.groups;
  const auto worth = [&](std::size_t group) {
    const float *begin = scores + group * size, *end = begin + size,
                *first = std::max_element(begin, end);
    float second = kTaken;
    for (const float* s = begin; s < end; ++s)
      if (s != first) second = std::max(second, *s);
    return op.groups_by_best ? *first : *first + second;
  };
  for (std::size_t left = op.groups; left > op.groups_used; --left) {
    std::size_t worst = op.groups;
    for (std::size_t g = 0; g < op.groups; ++g) {
      if (scores[g * size] == kTaken) continue;  // excluded already
      if (worst == op.groups || worth(g) <= worth(worst)) worst = g;
    }
    std::fill_n(scores + worst * size, size, kTaken);
  }
}

// products: the router's for this token; they are overwritten.
void choose_experts(const RouteOp& op, Pass& pass, float* products, std::size_t token) {
  const std::size_t n = op.n, used = op.used;
  std::uint32_t* const ids = pass.work.routing.ids + token * used;
  float* const weights = pass.work.routing.weights + token * used;
  float* const scores = pass.work.routing.scores + token * n;  // these decide
  if (op.gating == Gating::Softmax) pass.kernels.softmax(products, n);
  if (op.gating == Gating::Sigmoid)
    pass.kernels.activate({ActivationKind::Sigmoid}, products, nullptr, n);
  // No comparison would choose a NaN: it gets the lowest score, and shows in the weights of all.
  for (std::size_t e = 0; e < n; ++e) {
    scores[e] = products[e] + (op.selection_bias ? floats(*op.selection_bias)[e] : 0);
    if (!(scores[e] > std::numeric_limits<float>::lowest()))
      scores[e] = std::numeric_limits<float>::lowest();
  }
  if (op.groups_used < op.groups) keep_best_groups(op, scores);
  for (std::size_t i = 0; i < used; ++i) {
    ids[i] = static_cast<std::uint32_t>(best(scores, n));
    scores[ids[i]] = kTaken;
  }
  std::sort(ids, ids + used);
  for (std::size_t i = 0; i < used; ++i) weights[i] = products[ids[i]];
  if (op.gating == Gating::SoftmaxOfChosen) pass.kernels.softmax(weights, used);
  if (op.gating == Gating::SigmoidOfChosen)
    pass.kernels.activate({ActivationKind::Sigmoid}, weights, nullptr, used);
  if (op.normalized) {
    float sum = 0;
    for (std::size_t i = 0; i < used; ++i) sum += weights[i];
    if (sum == 0) sum = 1;  // a bias may choose only zeros
    for (std::size_t i = 0; i < used; ++i) weights[i] /= sum;
  }
  for (std::size_t i = 0; i < used; ++i) weights[i] *= op.scale;
}

// Orders slots by expert, then by token.
void fill_slots(const RouteOp& op, Pass& pass) {
  const std::size_t n = op.n, used = op.used;
  Routing& r = pass.work.routing;
  std::fill_n(r.begin, n + 1, 0);
  for (std::size_t i = pass.begin * used; i < pass.end * used; ++i) ++r.begin[r.ids[i] + 1];
  r.n_active = 0;
  for (std::size_t e = 0; e < n; ++e) {
    if (r.begin[e + 1] != 0) r.active[r.n_active++] = static_cast<std::uint32_t>(e);
    r.begin[e + 1] += r.begin[e];
  }
  for (std::size_t token = pass.begin; token < pass.end; ++token) {
    for (std::size_t i = token * used; i < (token + 1) * used; ++i) {
      const std::uint32_t slot = r.begin[r.ids[i]]++;
      r.token[slot] = static_cast<std::uint32_t>(token);
      r.slot_weight[slot] = r.weights[i];
    }
  }
  for (std::size_t e = n; e > 0; --e) r.begin[e] = r.begin[e - 1];  // each had moved to its end
  r.begin[0] = 0;
}

// Computes rows of one expert for all tokens that take it.
void multiply_up(const ExpertsUpOp& op, const Node& node, Pass& pass, std::size_t expert,
                 UnitRange rows, unsigned worker, const std::byte* next) {
  const Routing& r = pass.work.routing;
  const bool gated = op.up != kNoValue;
  const Value &in = pass.work[node.in], &out = pass.work[node.out];
  const Matrix &first_matrix = node.matrices[expert],
               &up_matrix = node.matrices[gated ? op.n + expert : expert];
  std::byte* const memory = pass.scratch_behind(worker, first_matrix.weight.cols());
  for (std::size_t first = r.begin[expert]; first < r.begin[expert + 1]; first += kExpertTokens) {
    const std::size_t n = std::min<std::size_t>(kExpertTokens, r.begin[expert + 1] - first);
    const auto gathered = [&](const Matrix& m) {
      const std::size_t token = r.token[first];
      if (r.token[first + n - 1] - token + 1 == n) return in.view(m.kernel.act, token, token + n);
      const Activations all = in.view(m.kernel.act, 0, pass.end);
      Activations some = place_activations(m.kernel.act, n, all.cols, memory);
      for (std::size_t i = 0; i < n; ++i) copy_row(all, r.token[first + i], some, i);
      return some;
    };
    pass.multiply(first_matrix, gathered(first_matrix), out.row(first) + rows.begin, out.width,
                  rows, worker, gated ? up_matrix.row(rows.begin) : next);
    if (gated)
      pass.multiply(up_matrix, gathered(up_matrix), pass.work[op.up].row(first) + rows.begin,
                    out.width, rows, worker, next);
    for (std::size_t slot = first; slot < first + n; ++slot) {
      float* const g = out.row(slot) + rows.begin;
      float* const u = gated ? pass.work[op.up].row(slot) + rows.begin : nullptr;
      if (op.weight_at_input) {
        pass.kernels.scale(g, r.slot_weight[slot], rows.size());
        if (gated) pass.kernels.scale(u, r.slot_weight[slot], rows.size());
      }
      pass.kernels.activate(op.activation, g, u, rows.size());
    }
  }
}

// Computes rows for all tokens and all their experts, in ascending order.
void multiply_down(const ExpertsDownOp& op, const Node& node, Pass& pass, UnitRange rows,
                   unsigned worker, const std::byte* next) {
  const Routing& r = pass.work.routing;
  const Value &in = pass.work[node.in], &out = pass.work[node.out];
  for (std::size_t token = pass.begin; token < pass.end; ++token)
    std::fill_n(out.row(token) + rows.begin, rows.size(), 0.0F);
  for (std::size_t a = 0; a < r.n_active; ++a) {
    const std::size_t expert = r.active[a];
    const Matrix& m = node.matrices[expert];
    const std::byte* const after =
        a + 1 < r.n_active ? node.matrices[r.active[a + 1]].row(rows.begin) : next;
    auto* const products = reinterpret_cast<float*>(pass.scratch_behind(worker, m.weight.cols()));
    for (std::size_t first = r.begin[expert]; first < r.begin[expert + 1]; first += kExpertTokens) {
      const std::size_t n = std::min<std::size_t>(kExpertTokens, r.begin[expert + 1] - first);
      pass.multiply(m, in.view(m.kernel.act, first, first + n), products, rows.size(), rows, worker,
                    after);
      for (std::size_t i = 0; i < n; ++i) {
        const float weight = op.weight_at_input ? 1 : r.slot_weight[first + i];
        pass.kernels.add_scaled(out.row(r.token[first + i]) + rows.begin,
                                products + i * rows.size(), weight, rows.size());
      }
    }
  }
}

}  // namespace

NodeFacts RouteOp::facts(const Graph& /*graph*/, const Node& /*node*/) const {
  constexpr std::array<std::string_view, 4> kGatings{"softmax", "sigmoid", "softmax of chosen",
                                                     "sigmoid of chosen"};
  std::string text =
      count_text(used, n) + " by " + std::string(kGatings[static_cast<std::size_t>(gating)]);
  if (normalized) text += ", normalized";
  if (scale != 1) text += ", weights" + factor_text(scale).substr(1);
  if (groups > 1)
    text += ", " + std::to_string(groups_used) + " of " + std::to_string(groups) + " groups" +
            (groups_by_best ? " by their best" : "");
  if (selection_bias) text += ", " + tensor_text(*selection_bias);
  NodeFacts facts{text + weights_text(weight_at_input), "", ""};
  if (selection_bias) facts.tensors = {*selection_bias};
  facts.small_input = true;
  facts.experts = n;
  facts.experts_used = used;
  return facts;
}

void RouteOp::run(const Node& node, Pass& pass) const {
  pass.for_each_token([&](std::size_t token) {
    choose_experts(*this, pass, pass.work[node.in].row(token), token);
  });
  fill_slots(*this, pass);
}

NodeFacts ExpertsUpOp::facts(const Graph& graph, const Node& node) const {
  NodeFacts facts = products_of_experts(
      ", " + activation_text(activation) + count_text(used, n) + weights_text(weight_at_input),
      graph, node, n, used);
  if (up != kNoValue) facts.more_writes = {up};
  facts.scratch = input_bytes(node, kExpertTokens);
  return facts;
}

// The experts are not known before the router has run.
const std::byte* ExpertsUpOp::first_weights(const Node& /*node*/, const Pass& /*pass*/,
                                            std::size_t /*chunk*/) {
  return nullptr;
}

// All slots, also if each token takes one expert.
UnitRange ExpertsUpOp::rows_written(const Node& /*node*/, const Pass& pass) const {
  return {0, pass.work.routing.begin[n]};
}

void ExpertsUpOp::run(const Node& node, Pass& pass) const {
  const Routing& r = pass.work.routing;
  const UnitRange own = pass.part_of(node).own.range();
  const std::size_t step =
      std::min(round_up(own.size(), kRowTile), pass.rows_per_chunk(own.size() * r.n_active));
  const std::size_t parts = own.size() == 0 ? 0 : divide_up(own.size(), step);
  pass.team.run_any(r.n_active * parts, [&](std::size_t chunk, unsigned worker) {
    const std::size_t begin = own.begin + chunk % parts * step,
                      after = std::min(chunk + 1, r.n_active * parts - 1);
    const std::byte* const next =
        node.matrices[r.active[after / parts]].row(own.begin + after % parts * step);
    multiply_up(*this, node, pass, r.active[chunk / parts],
                {begin, std::min(own.end, begin + step)}, worker, next);
  });
  pass.finish(node);
}

NodeFacts ExpertsDownOp::facts(const Graph& graph, const Node& node) const {
  NodeFacts facts = products_of_experts(count_text(used, n) + weights_text(weight_at_input), graph,
                                        node, n, used);
  facts.scratch = kExpertTokens * kExpertRows * sizeof(float);
  return facts;
}

RowChunks ExpertsDownOp::chunks(const Node& node, const Pass& pass) {
  const std::size_t own = pass.part_of(node).own.size();
  return RowChunks::equal(own, std::min(kExpertRows, pass.rows_per_chunk(own)));
}

const std::byte* ExpertsDownOp::first_weights(const Node& node, const Pass& pass,
                                              std::size_t chunk) {
  const std::size_t row = pass.part_of(node).own[chunks(node, pass)[chunk].begin];
  return node.matrices[pass.work.routing.active[0]].row(row);
}

void ExpertsDownOp::run(const Node& node, Pass& pass) const {
  pass.for_each_chunk(node, [&](UnitRange rows, const std::byte* next, unsigned worker) {
    multiply_down(*this, node, pass, rows, worker, next);
  });
  pass.finish(node);
}

}  // namespace cria
