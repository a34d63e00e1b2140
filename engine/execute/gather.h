// Gathers the parts of a node's output from all ranks. The floats of one token are sent from where
// they lie; for several tokens, each rank's columns are packed first. If only products of quantized
// values read the output, ranks send quantized blocks. Each rank quantizes the blocks that it has
// whole; the columns between them are sent as floats and quantized by every rank. Many tokens go in
// pieces that fit the caches: while one is packed, the one before it travels.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "engine/execute/graph_parts.h"
#include "engine/execute/work_memory.h"
#include "engine/ranks/ranks.h"

namespace cria {

class Pass;

/// Bytes of all ranks that are gathered at once (at least one row), and pieces in flight.
inline constexpr std::size_t kExchangeBytes = std::size_t{1} << 20, kExchanges = kMaxGathers;

/// Columns of a node's output that one rank computes, and the part of them that travels quantized:
/// whole blocks of every form.
struct RankColumns {
  const NodePart& part;
  const UnitRanges& units;
  UnitRange blocks;

  /// forms: part.forms, or none. The part must outlive the object.
  RankColumns(const NodePart& part, ActTypes forms, std::size_t rank);
  /// Returns the bytes of the columns of one row as they travel.
  [[nodiscard]] std::size_t bytes(ActTypes forms) const;
};

/// Bytes of all ranks' columns of one row. forms: part.forms, or none.
std::size_t gathered_bytes(const NodePart& part, ActTypes forms);
/// Rows of a node's output that are gathered at once. forms: part.forms, or none.
std::size_t rows_together(const NodePart& part, ActTypes forms);

/// The cost of gathering a node's output.
struct GatherTotals {
  double seconds = 0;       ///< includes waiting for ranks that still compute
  std::uint64_t times = 0;  ///< operations of Ranks
  std::uint64_t bytes = 0;  ///< sum of all ranks' parts
};

class Gatherer {
 public:
  /// Both must outlive the gatherer. ranks: null if this is the only process.
  Gatherer(const Pass& pass, Ranks* ranks);

  /// Gathers rows of a node's output if other ranks have parts of it. Returns true if this rank
  /// then has all floats and still has to quantize them.
  bool complete(const Node& node, UnitRange rows);
  /// On: gathers every node, for the observer of one rank.
  void gather_all(bool on) { gather_all_ = on; }
  /// Sets all totals to 0; measures while on.
  void profile(bool on);
  /// Returns the totals by node; valid while profiling is on.
  [[nodiscard]] std::span<const GatherTotals> totals() const { return totals_; }

 private:
  /// Memory of one piece.
  struct Exchange {
    std::vector<std::byte> bytes;
    std::vector<std::size_t> begin;  ///< [ranks + 1]

    /// Returns the address of a rank's columns of row i of n.
    [[nodiscard]] std::byte* place(std::size_t rank, std::size_t i, std::size_t n) {
      return bytes.data() + begin[rank] + (begin[rank + 1] - begin[rank]) / n * i;
    }
  };
  /// The output that is gathered now.
  struct Output {
    const Node& node;
    const NodePart& part;
    const Value& value;
    ActTypes forms;
  };

  void gather(const Output& out, UnitRange rows);
  void begin_gather(std::byte* data, const std::vector<std::size_t>& begin);
  void gather_in_place(const Output& out, std::size_t row);
  void send(const Output& out, UnitRange rows, Exchange& exchange);
  void receive(const Output& out, UnitRange rows, Exchange& exchange);
  void quantize_between(const Output& out, std::size_t row);

  const Pass& pass_;
  Ranks* const ranks_;
  std::array<Exchange, kExchanges> exchanges_;
  bool gather_all_ = false, profiling_ = false;
  std::vector<GatherTotals> totals_;
  GatherTotals* current_ = nullptr;  // totals of the current node while profiling
};

}  // namespace cria
