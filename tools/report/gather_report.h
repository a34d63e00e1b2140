// What gathering of nodes' outputs has cost where several ranks compute.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace cria::tools {

class FiguresTable;

/// "blk.*.attn_q" of "blk.3.attn_q": the same node in every layer.
std::string name_of_all_layers(const std::string& node);

/// Of one test on several ranks: as rank 0 has seen it.
struct GatherReport {
  struct Row {
    std::string node;         ///< in all layers
    std::uint64_t times = 0;  ///< so many operations
    std::uint64_t bytes = 0;  ///< of all ranks' parts
    double seconds = 0;       ///< waiting for ranks that still compute, too
  };
  unsigned ranks = 0;
  std::size_t tokens = 0;  ///< that the test has computed
  double seconds = 0;      ///< in which it has
  std::vector<Row> rows;   ///< nodes that are gathered, in the graph's order; then all

  /// times: of the nodes of a session that computed just these tokens.
  static GatherReport of(unsigned ranks, std::size_t tokens, double seconds,
                         std::span<const NodeTime> times);
};

/// Rows of tests, for people.
FiguresTable gather_table();
void add_rows(FiguresTable& table, const std::string& test, const GatherReport& report);
/// Members "ranks", "gather_share", "gather_bytes_per_token" and "gathers", of nodes, are added to
/// an object.
void add_members(nlohmann::ordered_json& object, const GatherReport& report);

}  // namespace cria::tools
