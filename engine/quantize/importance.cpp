#include "engine/quantize/importance.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "model/error.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr double kMinShare = 1e-4;  // of the mean: what a column gets that was always zero

void require_size(std::string_view tensor, std::uint64_t expected, std::uint64_t got) {
  if (expected == got) return;
  throw Error("",
              "importance of another model: expected " + counted(expected, "column") + ", got " +
                  std::to_string(got),
              "tensor " + std::string(tensor));
}

// One count per expert, where some knew only one for all.
void spread(std::vector<double>& counts, std::size_t n) {
  if (counts.size() == 1) counts.resize(n, counts.front());
}

}  // namespace

void ImportanceMatrix::add(const ImportanceMatrix& other) {
  for (const auto& [name, theirs] : other.entries) {
    const auto [found, is_new] = entries.try_emplace(name, theirs);
    if (is_new) continue;
    ImportanceEntry& mine = found->second;
    require_size(name, mine.sums.size(), theirs.sums.size());
    std::vector<double> counts = theirs.counts;
    spread(counts, mine.counts.size());
    spread(mine.counts, counts.size());
    require_size(name, mine.counts.size(), counts.size());
    for (std::size_t i = 0; i < mine.sums.size(); ++i) mine.sums[i] += theirs.sums[i];
    for (std::size_t i = 0; i < counts.size(); ++i) mine.counts[i] += counts[i];
  }
  for (const std::string& dataset : other.datasets) {
    if (std::ranges::find(datasets, dataset) == datasets.end()) datasets.push_back(dataset);
  }
  if (chunks == 0) {
    chunk_size = other.chunk_size;
    knows_chunk_size = other.knows_chunk_size;
  }
  std::uint64_t more = other.chunks;
  if (knows_chunk_size && other.knows_chunk_size)
    more = (more * other.chunk_size + chunk_size / 2) / chunk_size;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  chunks = static_cast<std::uint32_t>(std::min(chunks + more, kMost));
}

std::vector<float> ImportanceMatrix::weights(std::string_view tensor, std::uint64_t cols,
                                             std::uint64_t experts) const {
  const auto found = entries.find(tensor);
  if (found == entries.end()) return {};
  const ImportanceEntry& entry = found->second;
  if (entry.sums.size() != cols) require_size(tensor, cols * experts, entry.sums.size());
  std::vector<float> weights(cols * experts);
  const std::size_t per_count = entry.sums.size() / entry.counts.size();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t from = i % entry.sums.size();  // one entry serves all experts
    const double count = entry.counts[from / per_count];
    // Counts of a file may be so small that the mean is beyond any float.
    constexpr double kMost = std::numeric_limits<float>::max();
    weights[i] = count > 0 ? static_cast<float>(std::min(entry.sums[from] / count, kMost)) : 0.0F;
  }
  for (auto row = weights.begin(); row != weights.end(); row += static_cast<std::ptrdiff_t>(cols)) {
    const auto end = row + static_cast<std::ptrdiff_t>(cols);
    const auto least =
        static_cast<float>(kMinShare * std::accumulate(row, end, 0.0) / static_cast<double>(cols));
    std::for_each(row, end, [&](float& weight) { weight = std::max(weight, least); });
  }
  return weights;
}

}  // namespace cria
