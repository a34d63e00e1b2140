#include "bench/speed_tables.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "tools/terminal/terminal.h"

namespace cria::tools {

double value(const Row& row, const std::string& name) {
  return std::strtod(row.at(name).c_str(), nullptr);
}

std::vector<Machine> machines(const std::vector<Row>& rows) {
  std::vector<Machine> out;
  for (const Row& row : rows) {
    auto machine = std::ranges::find(out, row.at("machine"), &Machine::name);
    if (machine == out.end()) machine = out.insert(out.end(), Machine{row.at("machine"), {}, {}});
    auto model = std::ranges::find_if(
        machine->models, [&](const auto& known) { return known.first == row.at("model"); });
    if (model == machine->models.end())
      model = machine->models.insert(model, {row.at("model"), std::map<std::string, Row>{}});
    model->second[row.at("column")] = row;
    if (std::ranges::count(machine->columns, row.at("column")) == 0)
      machine->columns.push_back(row.at("column"));
  }
  return out;
}

std::string label(const std::string& model) {
  constexpr std::string_view kUsual = "1.1b:";
  return model.starts_with(kUsual) ? model.substr(kUsual.size()) : model;
}

namespace {

std::string ratio(const Row& row) {
  const std::string text = row.at("ratio");
  return std::strtod(text.c_str(), nullptr) > 1.1 ? "**" + text + "**" : text;
}

/// Prompts of 512 and decoding, with the peer's name and, where it was measured, the share of the
/// machine's limit.
std::string main_table(const Machine& machine) {
  const bool shares = std::ranges::any_of(machine.models, [](const auto& model) {
    return std::ranges::any_of(model.second,
                               [](const auto& cell) { return !cell.second.at("share").empty(); });
  });
  std::string out = "| type | prompt, cria | best peer | ratio |";
  out += std::string(shares ? " of int8 peak |" : "") + " decode, cria | best peer | ratio |" +
         (shares ? " of read rate |" : "") + "\n|---" + (shares ? "|--:|--:" : "") +
         "|--:|--:|--:|--:|--:|--:|\n";
  for (const auto& [model, cells] : machine.models) {
    if (!cells.contains("pp512") && !cells.contains("tg")) continue;
    out += "| " + label(model);
    for (const std::string column : {"pp512", "tg"}) {
      const auto found = cells.find(column);
      if (found == cells.end()) {
        out += shares ? " | – | – | – | –" : " | – | – | –";
        continue;
      }
      const Row& row = found->second;
      out += " | " + row.at("cria") + " | " +
             (row.at("peer").empty() ? "–" : row.at("peer") + " (" + row.at("peer_name") + ")") +
             " | " + (row.at("ratio").empty() ? "–" : ratio(row));
      if (shares)
        out += " | " + (row.at("share").empty() ? "–" : fixed(100 * value(row, "share"), 0) + " %");
    }
    out += " |\n";
  }
  return out;
}

/// The other columns: short prompts and depth; "cria, ratio" in each.
std::string further_table(const Machine& machine) {
  std::vector<std::string> columns;
  for (const std::string& column : machine.columns)
    if (column != "pp512" && column != "tg") columns.push_back(column);
  if (columns.empty()) return "";
  std::string out = "\n| type", line = "\n|---";
  for (const std::string& column : columns) {
    out += column.starts_with("pp") ? " | prompt of " + column.substr(2)
                                    : " | decode at " + column.substr(3);
    line += "|--:";
  }
  out += " |" + line + "|\n";
  for (const auto& [model, cells] : machine.models) {
    if (std::ranges::none_of(columns, [&cells = cells](const std::string& column) {
          return cells.contains(column);
        }))
      continue;
    out += "| " + label(model);
    for (const std::string& column : columns) {
      const auto found = cells.find(column);
      out += found == cells.end() ? " | –"
             : found->second.at("ratio").empty()
                 ? " | " + found->second.at("cria")
                 : " | " + found->second.at("cria") + ", " + ratio(found->second);
    }
    out += " |\n";
  }
  return out;
}

bool is_float_type(const std::string& model) {
  return model.ends_with(":F16") || model.ends_with(":BF16") || model.ends_with(":F32");
}

/// The median of the integer types' ratios in these columns and, in parentheses, the least.
std::string median_and_least(const Machine& machine,
                             const std::function<bool(const std::string&)>& wanted) {
  std::vector<double> ratios;
  for (const auto& [model, cells] : machine.models)
    for (const auto& [column, row] : cells)
      if (!is_float_type(model) && wanted(column) && !row.at("ratio").empty())
        ratios.push_back(value(row, "ratio"));
  if (ratios.empty()) return "–";
  std::ranges::sort(ratios);
  return fixed(ratios[ratios.size() / 2], 2) + " (" + fixed(ratios.front(), 2) + ")";
}

/// A cell of one model on one machine, or a dash.
std::string figure(const Machine& machine, const std::string& model, const std::string& column,
                   const std::string& name) {
  const auto found =
      std::ranges::find_if(machine.models, [&](const auto& m) { return m.first == model; });
  if (found == machine.models.end()) return "–";
  const auto cell = found->second.find(column);
  return cell == found->second.end() || cell->second.at(name).empty() ? "–" : cell->second.at(name);
}

}  // namespace

std::string overview_table(const std::vector<Machine>& all) {
  std::string out =
      "| processor | Q4_K, tokens/s: prompt of 512, decode | integer types beside the best peer: "
      "prompts of "
      "512 | of 8 "
      "to 128 | decode | F16, BF16, F32: prompts of 512 | decode "
      "|\n|---|--:|--:|--:|--:|--:|--:|\n";
  const auto floats = [](const Machine& machine, const std::string& column) {
    return figure(machine, "1.1b:F16", column, "ratio") + ", " +
           figure(machine, "1.1b:BF16", column, "ratio") + ", " +
           figure(machine, "1.1b:F32", column, "ratio");
  };
  const auto short_prompt = [](const std::string& column) {
    return column == "pp8" || column == "pp16" || column == "pp32" || column == "pp64" ||
           column == "pp128";
  };
  for (const Machine& machine : all)
    out += "| " + machine.name + " | " + figure(machine, "1.1b:Q4_K", "pp512", "cria") + ", " +
           figure(machine, "1.1b:Q4_K", "tg", "cria") + " | " +
           median_and_least(machine, [](const std::string& column) { return column == "pp512"; }) +
           " | " + median_and_least(machine, short_prompt) + " | " +
           median_and_least(machine, [](const std::string& column) { return column == "tg"; }) +
           " | " + floats(machine, "pp512") + " | " + floats(machine, "tg") + " |\n";
  return out;
}

std::string machine_tables(const Machine& machine) {
  return main_table(machine) + further_table(machine);
}

}  // namespace cria::tools
