#include "engine/quantize/importance_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/execute/non_finite.h"
#include "engine/model_parts.h"
#include "engine/session/fingerprint.h"
#include "model/file/binary_file.h"

namespace cria {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

}  // namespace

ImportanceRun::ImportanceRun(Session& session, std::span<const TokenId> text,
                             const PerplexityOptions& windows)
    : session_(session), text_(text), options_(windows), windows_(text.size(), windows) {
  const std::vector<Node>& nodes = session.graph().nodes;
  std::vector<std::size_t> writer(session.graph().values.size());  // the last node that wrote a value
  std::vector<std::vector<std::string>> readers(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const Matrix& matrix : nodes[i].matrices) {
      // Experts see some of the tokens only, and heads parts of a row: their inputs are not summed up.
      const bool whole =
          nodes[i].op == Op::MatMul || nodes[i].op == Op::FeedForward || nodes[i].op == Op::Heads;
      if (!whole || matrix.kernel.run == nullptr) continue;
      std::vector<std::string>& names = readers[writer[nodes[i].in]];
      if (std::ranges::find(names, matrix.weight.name) == names.end()) names.emplace_back(matrix.weight.name);
    }
    for (const ValueId id : nodes[i].writes()) writer[id] = i;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    source_of_.push_back(readers[i].empty() ? kNone : sources_.size());
    if (readers[i].empty()) continue;
    const std::size_t width = session.graph().values[nodes[i].out].width;
    sources_.push_back(
        {&nodes[i], std::move(readers[i]), std::vector<double>(width), std::vector<double>(width)});
  }
  session_.observe([this](const Node& node, std::span<const float> values, std::size_t width) {
    observe(node, values, width);
  });
}

ImportanceRun::~ImportanceRun() { session_.observe({}); }

void ImportanceRun::observe(const Node& node, std::span<const float> values, std::size_t width) {
  const auto place = static_cast<std::size_t>(&node - session_.graph().nodes.data());
  if (source_of_[place] == kNone) return;
  std::vector<double>& sums = sources_[source_of_[place]].window;
  for (; !values.empty(); values = values.subspan(width)) {
    for (std::size_t i = 0; i < width; ++i) sums[i] += double{values[i]} * double{values[i]};
  }
}

bool ImportanceRun::next(const OnBatch& on_batch) {
  if (done_ == windows_.size()) return false;
  const TextWindow window = windows_[done_];
  std::vector<TokenId> tokens(text_.begin() + static_cast<std::ptrdiff_t>(window.begin),
                              text_.begin() + static_cast<std::ptrdiff_t>(window.end));
  const Vocabulary& vocabulary = session_.model().vocabulary();
  if (vocabulary.add_bos) tokens.front() = vocabulary.bos.value_or(tokens.front());
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
    for (const std::string& tensor : source.tensors) matrix.entries[tensor] = {source.sums, {tokens}};
  }
  return matrix;
}

// The state on disk:
//
//   magic "CRIAIMTX" · u32 version · u32 windows done · u64 identity of model, text and windows · u64 n sums
//   · n sums (f64, in the order of the graph) · u64 checksum of all before it (little-endian)
namespace {

constexpr char kMagic[8] = {'C', 'R', 'I', 'A', 'I', 'M', 'T', 'X'};
constexpr std::uint32_t kVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version, n_done;
  std::uint64_t identity, n_sums;
};
static_assert(sizeof(Header) == 32);

}  // namespace

std::uint64_t ImportanceRun::identity() const {
  Hash hash;
  hash.add_number(fingerprint(session_.model()));
  hash.add_number(static_cast<std::uint64_t>(session_.options().kv_type));
  hash.add_number(std::uint64_t{options_.window});
  hash.add(text_.data(), text_.size_bytes());
  return hash.value();
}

void ImportanceRun::save(const std::string& path) const {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.n_done = static_cast<std::uint32_t>(done_);
  header.identity = identity();
  for (const Source& source : sources_) header.n_sums += source.sums.size();
  BinaryWriter out(path);
  out.write_number(header);
  for (const Source& source : sources_) out.write(source.sums.data(), source.sums.size() * sizeof(double));
  out.write_checksum();
  out.finish();
}

void ImportanceRun::load(const std::string& path) {
  BinaryReader in(path);
  in.expect(in.size() >= sizeof(Header), "no state of an importance matrix: too short");
  const auto header = in.read_number<Header>();
  in.expect(std::memcmp(header.magic, kMagic, sizeof kMagic) == 0, "no state of an importance matrix",
            "at byte 0");
  in.expect_equal("version", kVersion, header.version, "at byte 8");
  in.expect(header.identity == identity(), "state of another run: model, text or windows differ",
            "at byte 16");
  in.expect(header.n_done <= windows_.size(),
            "more windows are done than wanted: expected at most " + std::to_string(windows_.size()) +
                ", got " + std::to_string(header.n_done),
            "at byte 12");
  std::uint64_t n_sums = 0;
  for (const Source& source : sources_) n_sums += source.sums.size();
  in.expect_equal("number of sums", n_sums, header.n_sums, "at byte 24");
  in.expect_equal("wrong size in bytes", sizeof(Header) + n_sums * sizeof(double) + sizeof(std::uint64_t),
                  in.size());
  std::vector<std::vector<double>> sums;
  for (const Source& source : sources_) {
    sums.emplace_back(source.sums.size());
    in.read(sums.back().data(), sums.back().size() * sizeof(double));
  }
  in.check_checksum();
  for (std::size_t i = 0; i < sources_.size(); ++i) sources_[i].sums = std::move(sums[i]);
  done_ = header.n_done;
}

}  // namespace cria
