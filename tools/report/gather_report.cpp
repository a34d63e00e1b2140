#include "tools/report/gather_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/model_parts.h"
#include "tools/report/figures_table.h"

namespace cria::tools {
namespace {

/// One operation's microseconds.
double each(const GatherReport::Row& row) {
  return row.times == 0 ? 0 : 1e6 * row.seconds / static_cast<double>(row.times);
}

}  // namespace

std::string name_of_all_layers(const std::string& node) {
  if (!node.starts_with("blk.")) return node;
  return "blk.*" + node.substr(std::min(node.find('.', 4), node.size()));
}

GatherReport GatherReport::of(unsigned ranks, std::size_t tokens, double seconds,
                              std::span<const NodeTime> times) {
  GatherReport report{ranks, tokens, seconds, {}};
  Row all{.node = "all"};
  const auto add = [](Row& row, const NodeTime& time) {
    row.times += time.gathers;
    row.bytes += time.gathered_bytes;
    row.seconds += time.gather_seconds;
  };
  for (const NodeTime& time : times) {
    if (time.gathers == 0) continue;
    const std::string name = name_of_all_layers(time.node->name);
    auto row = std::ranges::find(report.rows, name, &Row::node);
    if (row == report.rows.end()) row = report.rows.insert(row, Row{.node = name});
    add(*row, time);
    add(all, time);
  }
  report.rows.push_back(all);
  return report;
}

FiguresTable gather_table() {
  return FiguresTable({{"test", "test"},
                       {"node", "gathered"},
                       {"times", "times/token", 2},
                       {"bytes_per_token", "bytes/token"},
                       {"microseconds", "µs each", 1},
                       {"microseconds_per_token", "µs/token", 1},
                       {"percent", "% of time", 1}});
}

void add_rows(FiguresTable& table, const std::string& test, const GatherReport& report) {
  const auto tokens = static_cast<double>(report.tokens);
  for (const GatherReport::Row& row : report.rows)
    table.add({test, row.node, static_cast<double>(row.times) / tokens,
               static_cast<double>(row.bytes) / tokens, each(row), 1e6 * row.seconds / tokens,
               100 * row.seconds / report.seconds});
}

void add_members(nlohmann::ordered_json& object, const GatherReport& report) {
  const auto tokens = static_cast<double>(report.tokens);
  const GatherReport::Row& all = report.rows.back();
  object["ranks"] = report.ranks;
  object["gather_share"] = all.seconds / report.seconds;
  object["gather_bytes_per_token"] = static_cast<double>(all.bytes) / tokens;
  nlohmann::ordered_json& nodes = object["gathers"] = nlohmann::ordered_json::array();
  for (const GatherReport::Row& row : std::span(report.rows).first(report.rows.size() - 1))
    nodes.push_back({{"node", row.node},
                     {"times_per_token", static_cast<double>(row.times) / tokens},
                     {"bytes_per_token", static_cast<double>(row.bytes) / tokens},
                     {"microseconds_each", each(row)},
                     {"microseconds_per_token", 1e6 * row.seconds / tokens}});
}

}  // namespace cria::tools
