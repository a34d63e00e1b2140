// figures DIRECTORY: makes the pictures and tables of measured figures. From DIRECTORY/speeds.csv,
// quantizations.csv and calibrated.csv it writes speeds.svg (first machine), perplexity.svg,
// quality.svg, and the tables
// between
// "<!-- NAME -->" and "<!-- end -->" in DIRECTORY/README.md, processors/*.md and the README.md
// above.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tools/report/plot.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

/// A line of a CSV file, by the names of its columns.
using Row = std::map<std::string, std::string>;

/// Measurements of one machine: models in the order of the file, each with its columns.
struct Machine {
  std::string name;
  std::vector<std::pair<std::string, std::map<std::string, Row>>> models;
  std::vector<std::string> columns;  ///< columns of any model
};

double value(const Row& row, const std::string& name) {
  return std::strtod(row.at(name).c_str(), nullptr);
}

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) out.push_back(cell);
  if (line.ends_with(',')) out.emplace_back();
  return out;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Reads rows by the names in the first line. Cells contain no commas.
std::vector<Row> read_csv(const std::string& path) {
  std::istringstream in(read_text(path));
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> names = cells(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> values = cells(line);
    if (values.size() != names.size())
      throw std::runtime_error(path + ": expected " + std::to_string(names.size()) +
                               " cells, got " + line);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i == 0) rows.emplace_back();
      rows.back()[names[i]] = values[i];
    }
  }
  return rows;
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

/// Removes the shape that nearly all rows have: "1.1b:Q4_K" is Q4_K.
std::string label(const std::string& model) {
  constexpr std::string_view kUsual = "1.1b:";
  return model.starts_with(kUsual) ? model.substr(kUsual.size()) : model;
}

std::string ratio(const Row& row) {
  const std::string text = row.at("ratio");
  return std::strtod(text.c_str(), nullptr) > 1.1 ? "**" + text + "**" : text;
}

/// Prompts of 512 and decoding: cria, best peer, ratio and, if measured, the share of the limit.
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

/// Other prompt lengths and depths: "cria, ratio" in each cell.
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

/// Median of the integer types' ratios in the wanted columns and, in parentheses, the lowest.
std::string median_and_lowest(const Machine& machine,
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

/// Returns a cell of one model on one machine, or a dash.
std::string figure(const Machine& machine, const std::string& model, const std::string& column,
                   const std::string& name) {
  const auto found =
      std::ranges::find_if(machine.models, [&](const auto& m) { return m.first == model; });
  if (found == machine.models.end()) return "–";
  const auto cell = found->second.find(column);
  return cell == found->second.end() || cell->second.at(name).empty() ? "–" : cell->second.at(name);
}

std::string quantizations_table(const std::vector<Row>& rows) {
  std::string out =
      "| mix | MiB | bits/weight | perplexity | change, % | KL divergence | same top, % "
      "|\n|---|--:|--:|--:|--:|--:|--:|\n";
  for (const Row& row : rows)
    out += "| " + row.at("mix") + " | " + row.at("mib") + " | " + row.at("bits_per_weight") +
           " | " + row.at("perplexity") + " | " + row.at("change_percent") + " ± " +
           row.at("change_error") + " | " + row.at("divergence") + " ± " +
           row.at("divergence_error") + " | " + row.at("same_top_percent") + " ± " +
           row.at("same_top_error") + " |\n";
  return out;
}

std::string speeds_picture(const Machine& machine) {
  BarPlot plot{.title = "Tokens per second, cria and the best peer, by tensor type",
               .subtitle = "1.1 B parameters, 2 threads, " + machine.name +
                           "; best of llama.cpp and ik_llama.cpp",
               .first_name = "cria",
               .second_name = "best peer",
               .panels = {{"prompt of 512", {}}, {"decoding 32", {}}}};
  for (const auto& [model, cells] : machine.models)
    for (const auto& [column, panel] : {std::pair<std::string, std::size_t>{"pp512", 0}, {"tg", 1}})
      if (const auto found = cells.find(column);
          found != cells.end() && !found->second.at("peer").empty())
        plot.panels[panel].bars.push_back(
            {label(model), value(found->second, "cria"), value(found->second, "peer")});
  return to_svg(plot);
}

std::string perplexity_picture(const std::vector<Row>& rows) {
  ScatterPlot plot{
      .title = "Perplexity over size",
      .subtitle =
          "the demo model (7.3 M parameters) in all mixes, 40 windows of WikiText-2's test text",
      .x_axis = "MiB",
      .y_axis = "perplexity",
      .points = {},
      .curve = {},
      .curve_label = {}};
  for (const Row& row : rows) {
    if (row.at("mix") == "F32") continue;  // equals F16; its size would compress the axis
    plot.points.push_back({value(row, "mib"), value(row, "perplexity"), 0, row.at("mix")});
  }
  return to_svg(plot);
}

std::string quality_picture(const std::vector<Row>& rows) {
  ScatterPlot plot{.title = "Divergence over size",
                   .subtitle =
                       "the demo model (7.3 M parameters), 100 windows of WikiText-2's test text; "
                       "importance and calibration by the same other text",
                   .x_axis = "MiB",
                   .y_axis = "KL divergence from F16",
                   .points = {},
                   .curve = {},
                   .curve_label = {}};
  for (const Row& row : rows)
    plot.points.push_back({.x = value(row, "mib"),
                           .y = value(row, "divergence"),
                           .error = 0,
                           .label = row.at("types") + ", " + row.at("by"),
                           .accent = row.at("by") == "calibrated"});
  return to_svg(plot);
}

bool is_short_prompt(const std::string& column) {
  for (const char* const name : {"pp8", "pp16", "pp32", "pp64", "pp128"})
    if (column == name) return true;
  return false;
}

std::string prompt_and_decode_table(const std::vector<Machine>& all) {
  std::string out =
      "| processor | Q4_K prompt, tokens/s | Q4_K decode, tokens/s | prompt, × fastest peer | "
      "decode, × fastest peer |\n|---|--:|--:|--:|--:|\n";
  for (const Machine& machine : all)
    out += "| " + machine.name + " | " + figure(machine, "1.1b:Q4_K", "pp512", "cria") + " | " +
           figure(machine, "1.1b:Q4_K", "tg", "cria") + " | " +
           median_and_lowest(machine, [](const std::string& c) { return c == "pp512"; }) + " | " +
           median_and_lowest(machine, [](const std::string& c) { return c == "tg"; }) + " |\n";
  return out;
}

std::string short_and_float_table(const std::vector<Machine>& all) {
  std::string out =
      "| processor | prompts of 8 to 128 | F16, BF16, F32: prompt of 512 | decode "
      "|\n|---|--:|--:|--:|\n";
  const auto floats = [](const Machine& machine, const std::string& column) {
    return figure(machine, "1.1b:F16", column, "ratio") + ", " +
           figure(machine, "1.1b:BF16", column, "ratio") + ", " +
           figure(machine, "1.1b:F32", column, "ratio");
  };
  for (const Machine& machine : all)
    out += "| " + machine.name + " | " + median_and_lowest(machine, is_short_prompt) + " | " +
           floats(machine, "pp512") + " | " + floats(machine, "tg") + " |\n";
  return out;
}

/// Replaces the text between each known mark and its end.
void write_tables(const std::string& path, const std::map<std::string, std::string>& tables) {
  std::string text = read_text(path);
  for (const auto& [name, table] : tables) {
    const std::string mark = "<!-- " + name + " -->\n";
    const std::size_t begin = text.find(mark);
    if (begin == std::string::npos) continue;
    const std::size_t end = text.find("<!-- end -->", begin);
    if (end == std::string::npos) throw std::runtime_error(path + ": no end of " + name);
    text.replace(begin + mark.size(), end - begin - mark.size(), table);
  }
  std::ofstream(path) << text;
}

void run(const std::filesystem::path& directory) {
  const std::vector<Machine> speeds = machines(read_csv(directory / "speeds.csv"));
  const std::vector<Row> quantizations = read_csv(directory / "quantizations.csv");
  if (speeds.empty()) throw std::runtime_error("speeds.csv has no rows");
  std::map<std::string, std::string> tables = {
      {"speeds", prompt_and_decode_table(speeds)},
      {"short prompts and floats", short_and_float_table(speeds)},
      {"quantizations", quantizations_table(quantizations)}};
  for (const Machine& machine : speeds)
    tables[machine.name] = main_table(machine) + further_table(machine);
  write_tables(directory / "README.md", tables);
  write_tables(directory / "../README.md", tables);
  for (const auto& entry : std::filesystem::directory_iterator(directory / "processors"))
    write_tables(entry.path(), tables);
  std::ofstream(directory / "speeds.svg") << speeds_picture(speeds.front());
  std::ofstream(directory / "perplexity.svg") << perplexity_picture(quantizations);
  std::ofstream(directory / "quality.svg")
      << quality_picture(read_csv(directory / "calibrated.csv"));
}

}  // namespace
}  // namespace cria::tools

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: figures DIRECTORY\n";
    return 2;
  }
  try {
    cria::tools::run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "figures: " << error.what() << '\n';
    return 1;
  }
}
