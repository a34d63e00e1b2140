// Several ranks: what each has computed of a node's output becomes everybody's. Floats of one token
// lie as they are sent; else each rank's columns are put together first. Where only products of
// quantized values read them, they are sent as that: every rank quantizes the blocks that it has
// whole, and what lies between these is sent as floats and quantized by all. Many tokens go in
// pieces that the caches hold: while one is put together, the one before it travels.
#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>

#include "engine/execute/executor.h"

namespace cria {
namespace {

/// piece(address, bytes) for everything that travels of these columns of a row.
template <class Piece>
void for_each_piece(const Value& out, ActTypes forms, std::size_t row, const RankColumns& columns,
                    Piece&& piece) {
  const auto floats = [&](std::size_t begin, std::size_t end) {
    if (begin != end) piece(out.row(row) + begin, (end - begin) * sizeof(float));
  };
  floats(columns.all.begin, columns.blocks.begin);
  floats(columns.blocks.end, columns.all.end);
  if (columns.blocks.size() == 0) return;
  for (const ActType type : kQuantizedForms) {
    if (!forms.has(type)) continue;
    const Activations acts =
        column_range(out.view(type, 0, row + 1), row, columns.blocks.begin, columns.blocks.size());
    piece(acts.q, acts.cols * acts.value_bytes());
    if (acts.d != nullptr) piece(acts.d, acts.d_stride() * sizeof *acts.d);
    if (acts.sum != nullptr) piece(acts.sum, acts.sum_stride() * sizeof *acts.sum);
  }
}

}  // namespace

std::size_t rows_together(const NodePart& part, ActTypes forms) {
  return std::max<std::size_t>(kExchangeBytes / gathered_bytes(part, forms), 1);
}

void Executor::make_exchange() {
  std::size_t widest = 0;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (parts_.nodes[i].divided())
      widest = std::max(widest, graph_.values[graph_.nodes[i].out].width);
  for (Exchange& exchange : exchanges_) {
    exchange.bytes.resize(std::max(widest * sizeof(float), kExchangeBytes));
    exchange.begin.resize(ranks_->size() + 1);
  }
}

// The rows of its output that a node writes now: of experts all slots, also where a token takes one
// expert alone.
UnitRange Executor::rows_of_out(const Node& node) const {
  if (node.op == Op::ExpertsUp) return {0, work_.routing.begin[node.experts.n]};
  const std::size_t first = first_row(node.out);
  return {first, first + count()};
}

// After a node's own part: whether this rank now has all floats of the output, which are to be
// quantized where that is needed.
bool Executor::complete(const Node& node) {
  const NodePart& part = part_of(node);
  if (!part.divided()) return true;
  if (!part.gathered && !gather_all_) return false;
  const bool forms = part.forms.quantized() && !gather_all_;
  if (!profiling_) {
    gather(node, forms);
  } else {
    const auto start = Clock::now();
    gathering_ = &gathers_[index_of(node)];
    gather(node, forms);
    gathering_->seconds += std::chrono::duration<double>(Clock::now() - start).count();
    gathering_ = nullptr;
  }
  return part.gathered && !forms;
}

void Executor::gather(const Node& node, bool forms) {
  const NodePart& part = part_of(node);
  const UnitRange rows = rows_of_out(node);
  if (rows.size() == 1 && !forms) return gather_in_place(node, rows.begin);
  const ActTypes types = forms ? part.forms : ActTypes{};
  const std::size_t most = rows_together(part, types);
  UnitRange before;
  for (std::size_t first = rows.begin, i = 0; first < rows.end; first += most, ++i) {
    const UnitRange now{first, std::min(rows.end, first + most)};
    send(node, types, now, exchanges_[i % kExchanges]);
    if (before.size() != 0) receive(node, types, before, exchanges_[(i - 1) % kExchanges]);
    before = now;
    if (now.end == rows.end) receive(node, types, now, exchanges_[i % kExchanges]);
  }
}

void Executor::begin_gather(std::byte* data, const std::vector<std::size_t>& begin) {
  if (gathering_ != nullptr) {
    ++gathering_->times;
    gathering_->bytes += begin.back();
  }
  ranks_->begin_gather(data, begin);
}

void Executor::gather_in_place(const Node& node, std::size_t row) {
  const NodePart& part = part_of(node);
  std::vector<std::size_t>& begin = exchanges_[0].begin;
  for (std::size_t r = 0; r < begin.size(); ++r)
    begin[r] = part.bounds[r] * part.width * sizeof(float);
  begin_gather(reinterpret_cast<std::byte*>(work_[node.out].row(row)), begin);
  ranks_->end_gather(Timeout::Usual);
}

// Row i of a rank's columns: [its place][i][pieces].
void Executor::send(const Node& node, ActTypes forms, UnitRange rows, Exchange& exchange) {
  const NodePart& part = part_of(node);
  exchange.begin[0] = 0;
  for (std::size_t r = 0; r < ranks_->size(); ++r)
    exchange.begin[r + 1] =
        exchange.begin[r] + RankColumns(part, forms, r).bytes(forms) * rows.size();
  assert(exchange.begin.back() <= exchange.bytes.size());
  const RankColumns own(part, forms, ranks_->rank());
  run_chunks(rows.size(), [&](std::size_t i, unsigned) {
    const std::size_t row = rows.begin + i;
    if (own.blocks.size() != 0)
      quantize_columns(node, {row, row + 1}, own.blocks.begin, own.blocks.end);
    std::byte* to = exchange.place(ranks_->rank(), i, rows.size());
    for_each_piece(work_[node.out], forms, row, own, [&to](const void* from, std::size_t size) {
      std::memcpy(to, from, size);
      to += size;
    });
  });
  begin_gather(exchange.bytes.data(), exchange.begin);
}

void Executor::receive(const Node& node, ActTypes forms, UnitRange rows, Exchange& exchange) {
  const NodePart& part = part_of(node);
  ranks_->end_gather(Timeout::Usual);
  run_chunks(rows.size(), [&](std::size_t i, unsigned) {
    const std::size_t row = rows.begin + i;
    for (std::size_t r = 0; r < ranks_->size(); ++r) {
      if (r == ranks_->rank()) continue;
      const std::byte* from = exchange.place(r, i, rows.size());
      for_each_piece(work_[node.out], forms, row, RankColumns(part, forms, r),
                     [&from](void* to, std::size_t size) {
                       std::memcpy(to, from, size);
                       from += size;
                     });
    }
    if (forms.quantized()) quantize_between(node, row);
  });
}

// What no rank has had whole blocks of.
void Executor::quantize_between(const Node& node, std::size_t row) {
  const NodePart& part = part_of(node);
  std::size_t done = 0;
  const auto quantize = [&](std::size_t end) {
    if (done < end) quantize_columns(node, {row, row + 1}, done, end);
  };
  for (std::size_t r = 0; r < ranks_->size(); ++r) {
    const RankColumns columns(part, part.forms, r);
    if (columns.blocks.size() == 0) continue;
    quantize(columns.blocks.begin);
    done = columns.blocks.end;
  }
  quantize(work_[node.out].width);
}

}  // namespace cria
