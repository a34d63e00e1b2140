#include "engine/execute/batch_plan.h"

#include <algorithm>
#include <cassert>

namespace cria {
namespace {

constexpr std::size_t kAttentionTokens = 24;  // of a block: enough to use a converted tile often

void reserve(BatchRows& rows, std::size_t n) {
  rows.tokens.reserve(n);
  rows.positions.reserve(n);
  rows.slices.reserve(n);
  rows.blocks.reserve(n);
}

void clear(BatchRows& rows) {
  rows.begin = rows.end = 0;
  rows.tokens.clear();
  rows.positions.clear();
  rows.slices.clear();
  rows.blocks.clear();
}

void add_slice(BatchRows& rows, const BatchSlice& slice) {
  for (std::size_t begin = slice.begin; begin < slice.end; begin += kAttentionTokens)
    rows.blocks.push_back(
        {rows.slices.size(), begin, std::min(slice.end, begin + kAttentionTokens)});
  rows.slices.push_back(slice);
}

}  // namespace

BatchPlan::BatchPlan(std::size_t n_batch) {
  reserve(all, n_batch);
  reserve(wanted, n_batch);
  moves.reserve(n_batch);
  first_wanted_.reserve(n_batch);
}

void BatchPlan::clear() {
  cria::clear(all);
  cria::clear(wanted);
  moves.clear();
  first_wanted_.clear();
}

void BatchPlan::add(std::span<const TokenId> tokens, std::size_t first_pos,
                    std::size_t first_wanted, const PageTables& pages) {
  assert(!tokens.empty() && first_wanted <= tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    all.tokens.push_back(tokens[i]);
    all.positions.push_back(first_pos + i);
  }
  first_wanted_.push_back(all.end + first_wanted);
  add_slice(all, {all.end, all.end + tokens.size(), first_pos, &pages});
  all.end += tokens.size();
}

void BatchPlan::finish() {
  wanted.tokens.resize(all.end);
  wanted.positions.resize(all.end);
  wanted.begin = wanted.end = all.end;
  for (std::size_t i = all.slices.size(); i-- > 0;) {
    const std::size_t from = first_wanted_[i], n = all.slices[i].end - from;
    if (n == 0) continue;
    wanted.begin -= n;
    if (from != wanted.begin) moves.push_back({from, wanted.begin, n});
    std::copy_n(all.tokens.begin() + static_cast<std::ptrdiff_t>(from), n,
                wanted.tokens.begin() + static_cast<std::ptrdiff_t>(wanted.begin));
    std::copy_n(all.positions.begin() + static_cast<std::ptrdiff_t>(from), n,
                wanted.positions.begin() + static_cast<std::ptrdiff_t>(wanted.begin));
  }
  std::size_t row = wanted.begin;
  for (std::size_t i = 0; i < all.slices.size(); ++i) {
    const std::size_t n = all.slices[i].end - first_wanted_[i];
    if (n == 0) continue;
    add_slice(wanted, {row, row + n, all.positions[first_wanted_[i]], all.slices[i].pages});
    row += n;
  }
}

}  // namespace cria
