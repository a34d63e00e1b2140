#include "tools/sweep_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/scatter_plot.h"
#include "tools/terminal.h"

namespace cria::tools {
namespace {

constexpr double kTolerance = 0.01;  // of perplexity, that advice gives away for speed
constexpr std::uint64_t kWorkBytes = std::uint64_t{512} << 20;  // beside the weights: keys and values, work

std::string with_error(const Estimate& e, int decimals, double factor = 1) {
  return fixed(factor * e.value, decimals) + " ± " + fixed(factor * e.error, decimals);
}

Estimate loss(const SweepRow& row) { return {row.ratio.value - 1, row.ratio.error}; }

std::string machine_text(const SweepMachine& m) {
  return m.cpu + ", " + m.isa + ", " + std::to_string(m.threads) + " threads, read rate " +
         fixed(m.read_gbytes, 1) + " GB/s";
}

std::vector<SweepRow> measured(const std::vector<SweepRow>& rows) {
  std::vector<SweepRow> good;
  std::ranges::copy_if(rows, std::back_inserter(good), [](const SweepRow& row) { return row.error.empty(); });
  return good;
}

/// A quantization's name without its model's; else names without what they all begin with, up to a hyphen.
std::string short_name(const SweepRow& row, const std::vector<SweepRow>& rows) {
  std::size_t common = row.name.size();
  for (const SweepRow& other : rows) {
    if (row.name.starts_with(other.name + "-")) return row.name.substr(other.name.size() + 1);
    const auto differs = std::ranges::mismatch(row.name, other.name).in1;
    if (&other != &row) common = std::min(common, static_cast<std::size_t>(differs - row.name.begin()));
  }
  const std::size_t separator = row.name.substr(0, common).rfind('-');
  return rows.size() < 2 || separator == std::string::npos ? row.name : row.name.substr(separator + 1);
}

std::string explain(const SweepRow& row, const SweepMachine& machine) {
  const double share = row.decode.value * static_cast<double>(row.read_bytes) / (1e9 * machine.read_gbytes);
  return row.name + " (" + human_bytes(row.file_bytes) + " of " + human_bytes(machine.available) +
         " available; perplexity " + (row.ratio.value < 1 ? "" : "+") + with_error(loss(row), 2, 100) +
         " %; decodes " + fixed(row.decode.value, 1) + " tokens/s, " + fixed(100 * share, 0) +
         " % of what the read rate allows" + (share > 1 ? ", being small enough for the caches)" : ")");
}

}  // namespace

std::string sweep_advice(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  std::vector<SweepRow> fit = measured(rows);
  std::erase_if(fit, [&](const SweepRow& row) { return row.file_bytes + kWorkBytes > machine.available; });
  if (fit.empty()) return "None of these files fits into the memory available here.";
  std::vector<SweepRow> exact = fit;
  std::erase_if(exact, [](const SweepRow& row) { return loss(row).value > kTolerance; });
  if (exact.empty()) {
    const auto best = std::ranges::min_element(fit, {}, [](const SweepRow& row) { return row.ratio.value; });
    return "Recommended here: " + explain(*best, machine) +
           ": of those that fit none loses less than 1 % of perplexity, and it loses least.";
  }
  const auto best = std::ranges::max_element(exact, {}, [](const SweepRow& row) { return row.decode.value; });
  return "Recommended here: " + explain(*best, machine) + ": of the " + std::to_string(exact.size()) +
         " that fit and lose at most 1 % of perplexity, it decodes fastest.";
}

std::string sweep_markdown(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  std::string out =
      "Measured on " + machine_text(machine) + "; " + machine.text + ".\n\n" +
      "| model | type | size | bits/weight | perplexity | change, % | KL divergence | same top, % | "
      "prompt, tokens/s | decode, tokens/s |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const SweepRow& row : rows) {
    out += "| " + row.name + " | ";
    if (!row.error.empty()) {
      out += "failed: " + row.error + " | | | | | | | | |\n";
      continue;
    }
    out += row.dtype + " | " + human_bytes(row.file_bytes) + " | " + fixed(row.bits_per_weight, 2) + " | " +
           with_error(row.ppl, 3) + " | " + with_error(loss(row), 2, 100) + " | " + with_error(row.kld, 5) +
           " | " + with_error(row.same_top, 2, 100) + " | " + with_error(row.prompt, 1) + " | " +
           with_error(row.decode, 1) + " |\n";
  }
  return out + "\n" + sweep_advice(rows, machine) + "\n";
}

std::string sweep_csv(const std::vector<SweepRow>& rows) {
  const auto cell = [](const nlohmann::ordered_json& value) {  // texts in quotes, quotes doubled
    if (!value.is_string()) return value.dump();
    std::string quoted = "\"";
    for (const char c : value.get<std::string>()) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + "\"";
  };
  std::string head, body;
  for (const SweepRow& row : rows) {
    nlohmann::ordered_json object = to_json(row);
    if (row.error.empty()) object["error"] = "";
    std::string names, cells;
    for (const auto& [name, value] : object.items()) {
      names += (names.empty() ? "" : ",") + name;
      cells += (cells.empty() ? "" : ",") + cell(value);
    }
    head = names + "\n";
    body += cells + "\n";
  }
  return head + body;
}

std::string sweep_json(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SweepRow& row : rows) list.push_back(to_json(row));
  const nlohmann::ordered_json object = {{"cpu", machine.cpu},
                                         {"isa", machine.isa},
                                         {"threads", machine.threads},
                                         {"read_gbytes_per_second", machine.read_gbytes},
                                         {"available_bytes", machine.available},
                                         {"text", machine.text},
                                         {"advice", sweep_advice(rows, machine)},
                                         {"rows", list}};
  return object.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string sweep_perplexity_svg(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  ScatterPlot plot{.title = "Perplexity against size",
                   .subtitle = machine.text + "; bars: error of the difference to the base",
                   .x_axis = "size of the file, MiB",
                   .y_axis = "perplexity",
                   .points = {},
                   .curve = {},
                   .curve_label = {}};
  const std::vector<SweepRow> good = measured(rows);
  for (const SweepRow& row : good)
    plot.points.push_back({static_cast<double>(row.file_bytes) / (1 << 20), row.ppl.value,
                           row.ppl.value * row.ratio.error / row.ratio.value, short_name(row, good)});
  return to_svg(plot);
}

std::string sweep_speed_svg(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  ScatterPlot plot{.title = "Decoding speed against size",
                   .subtitle = machine_text(machine),
                   .x_axis = "weights read per token, MB",
                   .y_axis = "decode, tokens/s",
                   .points = {},
                   .curve = {},
                   .curve_label = "read rate of this machine"};
  double least = 1e300, most = 0;
  const std::vector<SweepRow> good = measured(rows);
  for (const SweepRow& row : good) {
    const double megabytes = static_cast<double>(row.read_bytes) / 1e6;
    least = std::min(least, megabytes);
    most = std::max(most, megabytes);
    plot.points.push_back({megabytes, row.decode.value, row.decode.error, short_name(row, good)});
  }
  for (int i = 0; i <= 200 && most > 0; ++i) {
    const double megabytes = least / 2 + (1.2 * most - least / 2) * i / 200;
    plot.curve.emplace_back(megabytes, 1e3 * machine.read_gbytes / megabytes);
  }
  return to_svg(plot);
}

}  // namespace cria::tools
