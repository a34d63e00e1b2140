#include "engine/quantize/importance_run.h"

#include <algorithm>
#include <cmath>

#include "engine/execute/executor.h"
#include "engine/graph/graph.h"
#include "engine/model_parts.h"

namespace cria {
namespace {

void add_squares(double* sums, const float* row, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sums[i] += double{row[i]} * double{row[i]};
}

}  // namespace

ImportanceRun::ImportanceRun(Session& session, std::span<const TokenId> text,
                             const PerplexityOptions& windows)
    : WindowRun(session, text, windows) {
  const std::vector<Node>& nodes = session.graph().nodes;
  const std::vector<ValueInfo>& values = session.graph().values;
  std::vector<std::size_t> writer(values.size());  // the last node that wrote a value
  std::vector<std::vector<Reader>> readers(nodes.size());
  sources_of_.resize(nodes.size());
  kept_.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const Matrix& matrix : nodes[i].matrices) {
      if (!nodes[i].facts.dense || !matrix.multiplies()) continue;
      std::vector<Reader>& list = readers[writer[nodes[i].in]];
      const Reader reader{std::string(matrix.weight.name)};
      if (std::ranges::find(list, reader) == list.end()) list.push_back(reader);
    }
    if (nodes[i].as<ExpertsUpOp>() != nullptr) add_expert_sources(i, writer[nodes[i].in]);
    for (const ValueId id : nodes[i].writes()) writer[id] = i;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!readers[i].empty())
      add_source(i, nodes[i], std::move(readers[i]), values[nodes[i].out].width, 0, false);
  }
  session_.observe([this](const Node& node, std::span<const float> rows, std::size_t width) {
    observe(node, rows, width);
  });
}

ImportanceRun::~ImportanceRun() { session_.observe({}); }

void ImportanceRun::add_source(std::size_t place, const Node& node, std::vector<Reader> readers,
                               std::size_t width, std::size_t experts, bool gathered) {
  const std::size_t n = experts == 0 ? width : experts * (width + 1);
  sources_of_[place].push_back(sources_.size());
  sources_.push_back({&node, std::move(readers), width, experts, gathered, std::vector<double>(n),
                      std::vector<double>(n)});
}

// Sums the input of experts, written by the node `writer`, and their output, which the next node
// reads. Both wait for gates and ups, when tokens have been routed.
void ImportanceRun::add_expert_sources(std::size_t place, std::size_t writer) {
  const std::vector<Node>& nodes = session_.graph().nodes;
  const Node &up = nodes[place], &down = nodes[place + 1];
  const std::size_t experts = up.as<ExpertsUpOp>()->n;
  const auto readers = [&](const Node& node) {
    const std::string_view first = node.matrices.front().weight.name;
    const bool stacked = node.matrices[experts > 1 ? 1 : 0].weight.name == first;
    std::vector<Reader> list;
    for (std::size_t i = 0; i < node.matrices.size(); ++i) {
      Reader reader{std::string(node.matrices[i].weight.name)};
      if (!stacked) reader.expert = i % experts;
      if (std::ranges::find(list, reader) == list.end()) list.push_back(std::move(reader));
    }
    return list;
  };
  kept_[writer] = true;
  add_source(place, nodes[writer], readers(up), session_.graph().values[up.in].width, experts,
             true);
  add_source(place, up, readers(down), session_.graph().values[up.out].width, experts, false);
}

void ImportanceRun::observe(const Node& node, std::span<const float> values, std::size_t width) {
  const auto place = static_cast<std::size_t>(&node - session_.graph().nodes.data());
  if (kept_[place]) rows_.assign(values.begin(), values.end());
  for (const std::size_t i : sources_of_[place]) {
    Source& source = sources_[i];
    if (source.experts != 0) {
      add_experts(source, source.gathered ? rows_ : values);
      continue;
    }
    for (std::size_t row = 0; row < values.size() / width; ++row)
      add_squares(source.window.data(), values.data() + row * width, width);
  }
}

void ImportanceRun::add_experts(Source& source, std::span<const float> values) {
  const ExpertRows rows = session_.expert_rows(source.experts);
  for (std::size_t e = 0; e < source.experts; ++e) {
    for (std::size_t slot = rows.begin[e]; slot < rows.begin[e + 1]; ++slot) {
      const std::size_t row = source.gathered ? rows.token[slot] : slot;
      add_squares(source.window.data() + e * source.width, values.data() + row * source.width,
                  source.width);
      source.window[source.experts * source.width + e] += 1;
    }
  }
}

bool ImportanceRun::next(const OnBatch& on_batch) {
  if (done_ == windows_.size()) return false;
  const std::vector<TokenId> tokens = next_tokens();
  for (Source& source : sources_) std::ranges::fill(source.window, 0.0);
  session_.truncate(0);
  const std::size_t batch = session_.options().n_batch;
  for (std::size_t done = 0, n = 0; done < tokens.size(); done += n) {
    n = std::min(batch, tokens.size() - done);
    session_.forward(std::span(tokens).subspan(done, n), 0);
    if (on_batch && !on_batch(done + n)) return false;
  }
  for (Source& source : sources_) {
    if (!std::ranges::all_of(source.window, [](double sum) { return std::isfinite(sum); }))
      throw not_finite(session_.model().file(), session_.graph(), *source.node, {});
    std::ranges::transform(source.sums, source.window, source.sums.begin(), std::plus<>());
  }
  ++done_;
  return true;
}

ImportanceMatrix ImportanceRun::result(const std::string& dataset) const {
  ImportanceMatrix matrix;
  matrix.datasets = {dataset};
  matrix.chunks = static_cast<std::uint32_t>(done_);
  matrix.chunk_size = options_.window;
  const double tokens = static_cast<double>(done_) * options_.window;
  for (const Source& source : sources_) {
    const auto counts =
        source.sums.begin() + static_cast<std::ptrdiff_t>(source.experts * source.width);
    for (const Reader& reader : source.readers) {
      ImportanceEntry& entry = matrix.entries[reader.tensor];
      if (source.experts == 0) {
        entry = {source.sums, {tokens}};
      } else if (!reader.expert) {
        entry = {{source.sums.begin(), counts}, {counts, source.sums.end()}};
      } else {
        const auto begin =
            source.sums.begin() + static_cast<std::ptrdiff_t>(*reader.expert * source.width);
        entry = {{begin, begin + static_cast<std::ptrdiff_t>(source.width)},
                 {counts[static_cast<std::ptrdiff_t>(*reader.expert)]}};
      }
    }
  }
  return matrix;
}

// The state's data: u64 n sums · n sums (f64, in the order of the graph).
const WindowRun::StateKind ImportanceRun::kState = {
    "CRIAIMTX", "an importance matrix", 1,
    "state of a different run: the model, text or windows differ", sizeof(std::uint64_t)};

std::uint64_t ImportanceRun::n_sums() const {
  std::uint64_t n = 0;
  for (const Source& source : sources_) n += source.sums.size();
  return n;
}

void ImportanceRun::save(const std::string& path) const {
  BinaryWriter out(path);
  out.write_number(head(kState, hash().value()));
  out.write_number(n_sums());
  for (const Source& source : sources_)
    out.write(source.sums.data(), source.sums.size() * sizeof(double));
  out.write_checksum();
  out.finish();
}

void ImportanceRun::load(const std::string& path) {
  BinaryReader in(path);
  const std::uint32_t n_done = read_head(in, kState, hash().value());
  in.expect_equal("number of sums", n_sums(), in.read_number<std::uint64_t>(), "at byte 24");
  in.expect_equal("wrong size in bytes",
                  sizeof(StateHead) + n_sums() * sizeof(double) + 2 * sizeof(std::uint64_t),
                  in.size());
  std::vector<std::vector<double>> sums;
  for (const Source& source : sources_) {
    sums.emplace_back(source.sums.size());
    in.read(sums.back().data(), sums.back().size() * sizeof(double));
  }
  in.check_checksum();
  for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i].sums = std::move(sums[i]);
  done_ = n_done;
}

}  // namespace cria
