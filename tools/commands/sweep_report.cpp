#include "tools/commands/sweep_report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/plural.h"
#include "tools/report/plot.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

constexpr std::pair<const char*, Estimate SweepRow::*> kEstimates[] = {
    {"ppl", &SweepRow::ppl},           {"ppl_ratio", &SweepRow::ratio}, {"kld", &SweepRow::kld},
    {"same_top", &SweepRow::same_top}, {"pp", &SweepRow::prompt},       {"tg", &SweepRow::decode}};

}  // namespace

Json to_json(const SweepRow& row) {
  Json object = {{"name", row.name},
                 {"dtype", row.dtype},
                 {"file_bytes", row.file_bytes},
                 {"read_bytes", row.read_bytes},
                 {"bits_per_weight", row.bits_per_weight}};
  for (const auto& [name, member] : kEstimates) {
    object[name] = (row.*member).value;
    object[std::string(name) + "_stderr"] = (row.*member).error;
  }
  if (!row.command.empty()) object["command"] = row.command;
  if (!row.error.empty()) object["error"] = row.error;
  return object;
}

SweepRow sweep_row(const Json& object) {
  SweepRow row;
  object.at("name").get_to(row.name);
  object.at("dtype").get_to(row.dtype);
  object.at("file_bytes").get_to(row.file_bytes);
  object.at("read_bytes").get_to(row.read_bytes);
  object.at("bits_per_weight").get_to(row.bits_per_weight);
  for (const auto& [name, member] : kEstimates) {
    object.at(name).get_to((row.*member).value);
    object.at(std::string(name) + "_stderr").get_to((row.*member).error);
  }
  row.command = object.value("command", "");
  return row;
}

namespace {

constexpr double kTolerance = 0.01;  // loss of perplexity that advice accepts for speed
constexpr std::uint64_t kWorkBytes = std::uint64_t{512} << 20;  // for the KV cache and work memory

std::string with_error(const Estimate& e, int decimals, double factor = 1) {
  return fixed(factor * e.value, decimals) + " ± " + fixed(factor * e.error, decimals);
}

Estimate loss(const SweepRow& row) { return {row.ratio.value - 1, row.ratio.error}; }

std::string machine_text(const SweepMachine& m) {
  return m.cpu + ", " + m.isa + ", " + counted(m.threads, "thread") + ", read rate " +
         fixed(m.read_gbytes, 1) + " GB/s";
}

std::vector<SweepRow> measured(const std::vector<SweepRow>& rows) {
  std::vector<SweepRow> good;
  std::ranges::copy_if(rows, std::back_inserter(good),
                       [](const SweepRow& row) { return row.error.empty(); });
  return good;
}

/// A quantization's name without its model's; else names without what they all begin with, up to a
/// hyphen.
std::string short_name(const SweepRow& row, const std::vector<SweepRow>& rows) {
  std::size_t common = row.name.size();
  for (const SweepRow& other : rows) {
    if (row.name.starts_with(other.name + "-")) return row.name.substr(other.name.size() + 1);
    const auto differs = std::ranges::mismatch(row.name, other.name).in1;
    if (&other != &row)
      common = std::min(common, static_cast<std::size_t>(differs - row.name.begin()));
  }
  const std::size_t separator = row.name.substr(0, common).rfind('-');
  return rows.size() < 2 || separator == std::string::npos ? row.name
                                                           : row.name.substr(separator + 1);
}

std::string explain(const SweepRow& row, const SweepMachine& machine) {
  const double share =
      row.decode.value * static_cast<double>(row.read_bytes) / (1e9 * machine.read_gbytes);
  const std::string of_limit = machine.read_gbytes == 0  // memory was too small to measure it
                                   ? ")"
                                   : ", " + fixed(100 * share, 0) +
                                         " % of what the read rate allows" +
                                         (share > 1 ? ", being small enough for the caches)" : ")");
  return row.name + " (" + human_bytes(row.file_bytes) + " of " + human_bytes(machine.available) +
         " available; perplexity " + (row.ratio.value < 1 ? "" : "+") +
         with_error(loss(row), 2, 100) + " %; decodes " + fixed(row.decode.value, 1) + " tokens/s" +
         of_limit;
}

}  // namespace

SweepChoice sweep_choice(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  std::vector<std::size_t> fit, exact;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].error.empty() && rows[i].file_bytes + kWorkBytes <= machine.available)
      fit.push_back(i);
  std::ranges::copy_if(fit, std::back_inserter(exact),
                       [&](std::size_t i) { return loss(rows[i]).value <= kTolerance; });
  if (fit.empty()) return {};
  // The deciding figure; larger is better.
  const auto worth = [&](std::size_t i) {
    return exact.empty() ? Estimate{-rows[i].ratio.value, rows[i].ratio.error} : rows[i].decode;
  };
  const std::vector<std::size_t>& from = exact.empty() ? fit : exact;
  const std::size_t top =
      *std::ranges::max_element(from, {}, [&](std::size_t i) { return worth(i).value; });
  SweepChoice choice;
  choice.candidates = exact.size();
  for (const std::size_t i : from) {
    const double error = 2 * std::hypot(worth(i).error, worth(top).error);  // two standard errors
    if (i == top || worth(top).value - worth(i).value <= error) choice.alike.push_back(i);
  }
  choice.best = *std::ranges::min_element(choice.alike, {},
                                          [&](std::size_t i) { return rows[i].file_bytes; });
  return choice;
}

std::string sweep_advice(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  const SweepChoice choice = sweep_choice(rows, machine);
  if (!choice.best) return "No file fits into the memory available here.";
  const std::vector<SweepRow> good = measured(rows);
  std::string names;
  for (const std::size_t i : choice.alike)
    names += (names.empty() ? "" : ", ") + short_name(rows[i], good);
  const std::string what = choice.candidates > 0
                               ? "of the " + std::to_string(choice.candidates) +
                                     " files that fit and raise perplexity by at most 1 %, "
                               : "every file that fits raises perplexity by more than 1 %; ";
  const bool by_speed = choice.candidates > 0;
  const std::string best = by_speed ? "it decodes fastest." : "it raises it least.";
  return "Recommended here: " + explain(rows[*choice.best], machine) + ": " + what +
         (choice.alike.size() == 1
              ? best
              : names + (by_speed ? " decode equally fast" : " are equally good") +
                    " within the error, and " + short_name(rows[*choice.best], good) +
                    " is the smallest.") +
         (rows[*choice.best].command.empty() ? "" : "\nMake it: " + rows[*choice.best].command);
}

namespace {

const std::vector<std::string> kHeadings = {"mix",
                                            ">MiB",
                                            ">bits/weight",
                                            ">perplexity",
                                            ">change, %",
                                            ">KL divergence",
                                            ">same top, %",
                                            ">prompt, tokens/s",
                                            ">decode, tokens/s"};

std::vector<std::string> cells(const SweepRow& row, const std::vector<SweepRow>& good) {
  if (!row.error.empty()) return {row.name, "failed: " + row.error};
  return {short_name(row, good),
          fixed(static_cast<double>(row.file_bytes) / (1 << 20), 2),
          fixed(row.bits_per_weight, 2),
          with_error(row.ppl, 3),
          with_error(loss(row), 2, 100),
          with_error(row.kld, 5),
          with_error(row.same_top, 2, 100),
          with_error(row.prompt, 1),
          with_error(row.decode, 1)};
}

}  // namespace

std::string sweep_text(const std::vector<SweepRow>& rows, const SweepMachine& machine,
                       std::size_t columns) {
  const std::vector<SweepRow> good = measured(rows);
  Table table(kHeadings);
  std::string failed;
  for (const SweepRow& row : rows) {
    if (row.error.empty())
      table.add(cells(row, good));
    else
      failed += row.name + " failed: " + row.error + "\n";
  }
  return "Measured on " + machine_text(machine) + "; " + machine.text + ".\n\n" +
         table.text(columns) + "\n" + (failed.empty() ? "" : failed + "\n") +
         sweep_advice(rows, machine) + "\n";
}

std::string sweep_markdown(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  const std::vector<SweepRow> good = measured(rows);
  std::string head, rule, body;
  for (const std::string& heading : kHeadings) {
    head += "| " + heading.substr(heading.starts_with('>') ? 1 : 0) + " ";
    rule += heading.starts_with('>') ? "|--:" : "|---";
  }
  for (const SweepRow& row : rows) {
    std::vector<std::string> line = cells(row, good);
    line.resize(kHeadings.size());
    for (const std::string& cell : line) body += "| " + cell + " ";
    body += "|\n";
  }
  return "Measured on " + machine_text(machine) + "; " + machine.text + ".\n\n" + head + "|\n" +
         rule + "|\n" + body + "\n" + sweep_advice(rows, machine) + "\n";
}

std::string sweep_csv(const std::vector<SweepRow>& rows) {
  const auto cell = [](const Json& value) {  // texts in quotes, quotes doubled
    if (!value.is_string()) return value.dump();
    std::string quoted = "\"";
    for (const char c : value.get<std::string>()) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + "\"";
  };
  std::string head, body;
  for (const SweepRow& row : rows) {
    Json object = to_json(row);
    object.erase("command");
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
  Json list = Json::array();
  for (const SweepRow& row : rows) list.push_back(to_json(row));
  const Json object = {{"cpu", machine.cpu},
                       {"isa", machine.isa},
                       {"threads", machine.threads},
                       {"read_gbytes_per_second", machine.read_gbytes},
                       {"available_bytes", machine.available},
                       {"text", machine.text},
                       {"advice", sweep_advice(rows, machine)},
                       {"rows", list}};
  return json_text(object);
}

namespace {

/// The name of the recommended row, or "".
std::string recommended(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  const SweepChoice choice = sweep_choice(rows, machine);
  return choice.best ? rows[*choice.best].name : "";
}

}  // namespace

std::string sweep_perplexity_svg(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  ScatterPlot plot{.title = machine.model + ": perplexity against size",
                   .subtitle = machine.text + "; bars: error of the difference to the base",
                   .x_axis = "size of the file, MiB",
                   .y_axis = "perplexity",
                   .points = {},
                   .curve = {},
                   .curve_label = {}};
  const std::vector<SweepRow> good = measured(rows);
  const std::string best = recommended(rows, machine);
  for (const SweepRow& row : good)
    plot.points.push_back({static_cast<double>(row.file_bytes) / (1 << 20), row.ppl.value,
                           row.ppl.value * row.ratio.error / row.ratio.value, short_name(row, good),
                           row.name == best});
  return to_svg(plot);
}

std::string sweep_speed_svg(const std::vector<SweepRow>& rows, const SweepMachine& machine) {
  ScatterPlot plot{.title = machine.model + ": decoding speed against size",
                   .subtitle = machine_text(machine),
                   .x_axis = "weights read per token, MiB",
                   .y_axis = "decode, tokens/s",
                   .points = {},
                   .curve = {},
                   .curve_label = "read rate of this machine"};
  constexpr double kMiB = 1 << 20;
  const std::string best = recommended(rows, machine);
  double least = 1e300, most = 0;
  const std::vector<SweepRow> good = measured(rows);
  for (const SweepRow& row : good) {
    const double size = static_cast<double>(row.read_bytes) / kMiB;
    least = std::min(least, size);
    most = std::max(most, size);
    plot.points.push_back(
        {size, row.decode.value, row.decode.error, short_name(row, good), row.name == best});
  }
  for (int i = 0; i <= 200 && most > 0; ++i) {
    const double size = least / 2 + (1.2 * most - least / 2) * i / 200;
    plot.curve.emplace_back(size, 1e9 * machine.read_gbytes / (size * kMiB));
  }
  return to_svg(plot);
}

}  // namespace cria::tools
