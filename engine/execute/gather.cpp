#include "engine/execute/gather.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>

#include "engine/execute/pass.h"

namespace cria {
namespace {

// piece(address, bytes) for all that travels of a rank's columns of a row.
template <class Piece>
void for_each_piece(const Value& out, ActTypes forms, std::size_t row, const RankColumns& columns,
                    Piece&& piece) {
  const auto floats = [&](std::size_t begin, std::size_t end) {
    if (begin != end) piece(out.row(row) + begin, (end - begin) * sizeof(float));
  };
  const bool blocks = columns.blocks.size() != 0;
  for (const UnitRange& units : columns.units) {
    const UnitRange all = columns.part.columns(units);
    floats(all.begin, blocks ? columns.blocks.begin : all.end);
    if (blocks) floats(columns.blocks.end, all.end);
  }
  if (!blocks) return;
  for (const ActType type : kQuantizedForms) {
    if (!forms.has(type)) continue;
    const Activations acts =
        column_range(out.view(type, 0, row + 1), row, columns.blocks.begin, columns.blocks.size());
    piece(acts.q, acts.cols * acts.value_bytes());
    if (acts.d != nullptr) piece(acts.d, acts.d_stride() * sizeof *acts.d);
    if (acts.sum != nullptr) piece(acts.sum, acts.sum_stride() * sizeof *acts.sum);
  }
}

std::size_t values_per_block(ActType type) {
  if (type == ActType::BF16) return 2;
  Activations acts;
  acts.type = type;
  return acts.values_per_d();
}

}  // namespace

RankColumns::RankColumns(const NodePart& its, ActTypes forms, std::size_t rank)
    : part(its), units(its.units[rank]) {
  std::size_t unit = 0;
  for (const ActType type : kQuantizedForms)
    if (forms.has(type)) unit = std::max(unit, values_per_block(type));
  if (unit == 0) return;
  const UnitRange all = part.columns(units.range());
  const UnitRange whole{(all.begin + unit - 1) / unit * unit, all.end / unit * unit};
  if (whole.begin < whole.end) blocks = whole;
}

std::size_t RankColumns::bytes(ActTypes forms) const {
  std::size_t sum = (units.size() * part.division.width - blocks.size()) * sizeof(float);
  for (const ActType type : kQuantizedForms) {
    if (!forms.has(type)) continue;
    Activations acts;
    acts.type = type;
    acts.cols = blocks.size();
    sum += acts.cols * acts.value_bytes();
    if (type != ActType::BF16)
      sum += acts.d_stride() * sizeof *acts.d + acts.sum_stride() * sizeof *acts.sum;
  }
  return sum;
}

std::size_t gathered_bytes(const NodePart& part, ActTypes forms) {
  std::size_t sum = 0;
  for (std::size_t r = 0; r < part.units.size(); ++r)
    sum += RankColumns(part, forms, r).bytes(forms);
  return sum;
}

std::size_t rows_together(const NodePart& part, ActTypes forms) {
  return std::max<std::size_t>(kExchangeBytes / gathered_bytes(part, forms), 1);
}

Gatherer::Gatherer(const Pass& pass, Ranks* ranks)
    : pass_(pass), ranks_(ranks), totals_(pass.graph.nodes.size()) {
  if (ranks == nullptr) return;
  std::size_t most = kExchangeBytes;
  for (const NodePart& part : pass.parts.nodes) most = std::max(most, gathered_bytes(part, {}));
  for (Exchange& exchange : exchanges_) {
    exchange.bytes.resize(most);
    exchange.begin.resize(ranks->size() + 1);
  }
}

void Gatherer::profile(bool on) {
  profiling_ = on;
  std::ranges::fill(totals_, GatherTotals{});
}

bool Gatherer::complete(const Node& node, UnitRange rows) {
  const NodePart& part = pass_.part_of(node);
  if (!part.divided()) return true;
  if (!part.gathered && !gather_all_) return false;
  const bool forms = part.forms.quantized() && !gather_all_;
  const Output out{node, part, pass_.work[node.out], forms ? part.forms : ActTypes{}};
  if (!profiling_) {
    gather(out, rows);
  } else {
    const auto start = std::chrono::steady_clock::now();
    current_ = &totals_[pass_.index_of(node)];
    gather(out, rows);
    current_->seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    current_ = nullptr;
  }
  return part.gathered && !forms;
}

void Gatherer::gather(const Output& out, UnitRange rows) {
  if (rows.size() == 1 && !out.forms.quantized() && out.part.gathered)
    return gather_in_place(out, rows.begin);
  const std::size_t most = rows_together(out.part, out.forms);
  UnitRange before;
  for (std::size_t first = rows.begin, i = 0; first < rows.end; first += most, ++i) {
    const UnitRange now{first, std::min(rows.end, first + most)};
    send(out, now, exchanges_[i % kExchanges]);
    if (before.size() != 0) receive(out, before, exchanges_[(i - 1) % kExchanges]);
    before = now;
    if (now.end == rows.end) receive(out, now, exchanges_[i % kExchanges]);
  }
}

void Gatherer::begin_gather(std::byte* data, const std::vector<std::size_t>& begin) {
  if (current_ != nullptr) {
    ++current_->times;
    current_->bytes += begin.back();
  }
  ranks_->begin_gather(data, begin);
}

void Gatherer::gather_in_place(const Output& out, std::size_t row) {
  std::vector<std::size_t>& begin = exchanges_[0].begin;
  for (std::size_t r = 0; r + 1 < begin.size(); ++r)
    begin[r + 1] = begin[r] + RankColumns(out.part, {}, r).bytes({});
  begin_gather(reinterpret_cast<std::byte*>(out.value.row(row)), begin);
  ranks_->end_gather(Timeout::Usual);
}

// A rank's columns of row i are packed as [place of the rank][i][pieces].
void Gatherer::send(const Output& out, UnitRange rows, Exchange& exchange) {
  exchange.begin[0] = 0;
  for (std::size_t r = 0; r < ranks_->size(); ++r)
    exchange.begin[r + 1] =
        exchange.begin[r] + RankColumns(out.part, out.forms, r).bytes(out.forms) * rows.size();
  assert(exchange.begin.back() <= exchange.bytes.size());
  const RankColumns own(out.part, out.forms, ranks_->rank());
  pass_.team.run_any(rows.size(), [&](std::size_t i, unsigned) {
    const std::size_t row = rows.begin + i;
    if (own.blocks.size() != 0)
      out.value.quantize(pass_.kernels, out.node.acts, {row, row + 1}, own.blocks);
    std::byte* to = exchange.place(ranks_->rank(), i, rows.size());
    for_each_piece(out.value, out.forms, row, own, [&to](const void* from, std::size_t size) {
      std::memcpy(to, from, size);
      to += size;
    });
  });
  begin_gather(exchange.bytes.data(), exchange.begin);
}

void Gatherer::receive(const Output& out, UnitRange rows, Exchange& exchange) {
  ranks_->end_gather(Timeout::Usual);
  pass_.team.run_any(rows.size(), [&](std::size_t i, unsigned) {
    const std::size_t row = rows.begin + i;
    for (std::size_t r = 0; r < ranks_->size(); ++r) {
      if (r == ranks_->rank()) continue;
      const std::byte* from = exchange.place(r, i, rows.size());
      for_each_piece(out.value, out.forms, row, RankColumns(out.part, out.forms, r),
                     [&from](void* to, std::size_t size) {
                       std::memcpy(to, from, size);
                       from += size;
                     });
    }
    if (out.forms.quantized()) quantize_between(out, row);
  });
}

// Quantizes the columns of which no rank has whole blocks.
void Gatherer::quantize_between(const Output& out, std::size_t row) {
  std::size_t done = 0;
  const auto quantize = [&](std::size_t end) {
    if (done < end) out.value.quantize(pass_.kernels, out.node.acts, {row, row + 1}, {done, end});
  };
  for (std::size_t r = 0; r < ranks_->size(); ++r) {
    const RankColumns columns(out.part, out.forms, r);
    if (columns.blocks.size() == 0) continue;
    quantize(columns.blocks.begin);
    done = columns.blocks.end;
  }
  quantize(out.value.width);
}

}  // namespace cria
