// Several ranks: what each has computed of a node's output becomes everybody's. Floats of one token lie as they are sent; else each
// rank's columns are put together first. Where only products of quantized values read them, they are sent as that: every rank
// quantizes the blocks that it has whole, and what lies between these is sent as floats and quantized by all.
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

void Executor::make_exchange() {
  std::size_t widest = 0;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (parts_.nodes[i].divided()) widest = std::max(widest, graph_.values[graph_.nodes[i].out].width);
  exchange_.resize(std::max(widest * sizeof(float), kExchangeBytes));
  exchange_begin_.resize(ranks_->size() + 1);
}

// The rows of its output that a node writes now.
UnitRange Executor::rows_of_out(const Node& node) const {
  if (graph_.values[node.out].rows_per_token > 1) return {0, work_.routing.begin[node.experts.n]};
  const std::size_t first = first_row(node.out);
  return {first, first + count()};
}

// After a node's own part: whether this rank now has all floats of the output, which are to be quantized where that is needed.
bool Executor::complete(const Node& node) {
  const NodePart& part = part_of(node);
  if (!part.divided()) return true;
  if (!part.gathered && !gather_all_) return false;
  const bool forms = part.forms.quantized() && !gather_all_;
  if (!profiling_) {
    gather(node, forms);
  } else {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    gathering_ = &gathers_[index_of(node)];
    gather(node, forms);
    gathering_->seconds += std::chrono::duration<double>(Clock::now() - start).count();
    gathering_ = nullptr;
  }
  return part.gathered && !forms;
}

void Executor::gather(const Node& node, bool forms) {
  const Value& out = work_[node.out];
  const UnitRange rows = rows_of_out(node);
  const std::size_t most = std::max<std::size_t>(exchange_.size() / (out.width * sizeof(float)), 1);
  for (std::size_t first = rows.begin; first < rows.end; first += most) {
    const UnitRange now{first, std::min(rows.end, first + most)};
    forms ? exchange_forms(node, now) : exchange_floats(node, now);
  }
}

void Executor::exchange(std::byte* data) {
  if (gathering_ != nullptr) {
    ++gathering_->times;
    gathering_->bytes += exchange_begin_.back();
  }
  ranks_->gather(data, exchange_begin_, Patience::Usual);
}

void Executor::exchange_floats(const Node& node, UnitRange rows) {
  const Value& out = work_[node.out];
  const NodePart& part = part_of(node);
  if (rows.size() != 1) return exchange_pieces(out, part, {}, rows);
  for (std::size_t r = 0; r < exchange_begin_.size(); ++r)
    exchange_begin_[r] = part.bounds[r] * part.width * sizeof(float);
  exchange(reinterpret_cast<std::byte*>(out.row(rows.begin)));
}

void Executor::exchange_forms(const Node& node, UnitRange rows) {
  const NodePart& part = part_of(node);
  const RankColumns own(part, part.forms, ranks_->rank());
  const auto quantize = [&](std::size_t row, std::size_t begin, std::size_t end) {
    if (begin < end) quantize_columns(node, {row, row + 1}, begin, end);
  };
  run_chunks(rows.size(),
             [&](std::size_t i, unsigned) { quantize(rows.begin + i, own.blocks.begin, own.blocks.end); });
  exchange_pieces(work_[node.out], part, part.forms, rows);
  run_chunks(rows.size(), [&](std::size_t i, unsigned) {
    std::size_t done = 0;
    for (std::size_t r = 0; r < ranks_->size(); ++r) {
      const RankColumns columns(part, part.forms, r);
      if (columns.blocks.size() == 0) continue;
      quantize(rows.begin + i, done, columns.blocks.begin);
      done = columns.blocks.end;
    }
    quantize(rows.begin + i, done, work_[node.out].width);
  });
}

// Row i of a rank's columns: [its place][i][pieces].
void Executor::exchange_pieces(const Value& out, const NodePart& part, ActTypes forms, UnitRange rows) {
  exchange_begin_[0] = 0;
  for (std::size_t r = 0; r < ranks_->size(); ++r) {
    exchange_begin_[r + 1] = exchange_begin_[r] + RankColumns(part, forms, r).bytes(forms) * rows.size();
  }
  assert(exchange_begin_.back() <= exchange_.size());
  const auto place = [&](std::size_t rank, std::size_t i) {
    const std::size_t begin = exchange_begin_[rank], all = exchange_begin_[rank + 1] - begin;
    return exchange_.data() + begin + all / rows.size() * i;
  };
  const std::size_t own = ranks_->rank();
  run_chunks(rows.size(), [&](std::size_t i, unsigned) {
    std::byte* to = place(own, i);
    for_each_piece(out, forms, rows.begin + i, RankColumns(part, forms, own),
                   [&to](const void* from, std::size_t size) {
                     std::memcpy(to, from, size);
                     to += size;
                   });
  });
  exchange(exchange_.data());
  run_chunks(rows.size(), [&](std::size_t i, unsigned) {
    for (std::size_t r = 0; r < ranks_->size(); ++r) {
      if (r == own) continue;
      const std::byte* from = place(r, i);
      for_each_piece(out, forms, rows.begin + i, RankColumns(part, forms, r),
                     [&from](void* to, std::size_t size) {
                       std::memcpy(to, from, size);
                       from += size;
                     });
    }
  });
}

}  // namespace cria
