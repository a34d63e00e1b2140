// figures DIRECTORY [--check]: of the measured figures in DIRECTORY/speeds.csv and quantizations.csv, the pictures
// speeds.svg (of the first machine) and perplexity.svg and the tables in README.md between "<!-- NAME.csv -->", for
// speeds "<!-- speeds.csv: MACHINE -->", and "<!-- end -->". A ratio is bold where it is above 1.1: less is within the
// error. --check: writes nothing; exit code 1 where a file is not what it would be.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "tools/report/bar_plot.h"
#include "tools/report/scatter_plot.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

using Row = std::map<std::string, std::string>;

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

/// Rows by the names in the first line. No cell has a comma.
std::vector<Row> read_csv(const std::string& path) {
  std::istringstream in(read_text(path));
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> names = cells(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> values = cells(line);
    if (values.size() != names.size())
      throw std::runtime_error(path + ": expected " + std::to_string(names.size()) + " cells, got " + line);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i == 0) rows.emplace_back();
      rows.back()[names[i]] = values[i];
    }
  }
  return rows;
}

double value(const Row& row, const std::string& name) { return std::strtod(row.at(name).c_str(), nullptr); }

std::string ratio(const Row& row) {
  const std::string text = row.at("ratio");
  return std::strtod(text.c_str(), nullptr) > 1.1 ? "**" + text + "**" : text;
}

/// What was measured on one machine: models in the order of the file, each with its columns.
struct Machine {
  std::string name;
  std::vector<std::pair<std::string, std::map<std::string, Row>>> models;
  std::vector<std::string> columns;  ///< of any model
};

std::vector<Machine> machines(const std::vector<Row>& rows) {
  std::vector<Machine> out;
  for (const Row& row : rows) {
    auto machine = std::ranges::find(out, row.at("machine"), &Machine::name);
    if (machine == out.end()) machine = out.insert(out.end(), Machine{row.at("machine"), {}, {}});
    auto model = std::ranges::find_if(machine->models,
                                      [&](const auto& known) { return known.first == row.at("model"); });
    if (model == machine->models.end())
      model = machine->models.insert(model, {row.at("model"), std::map<std::string, Row>{}});
    model->second[row.at("column")] = row;
    if (std::ranges::count(machine->columns, row.at("column")) == 0)
      machine->columns.push_back(row.at("column"));
  }
  return out;
}

/// "1.1b:Q4_K" is Q4_K: the shape of nearly all.
std::string label(const std::string& model) {
  constexpr std::string_view kUsual = "1.1b:";
  return model.starts_with(kUsual) ? model.substr(kUsual.size()) : model;
}

/// Prompts of 512 and decoding, with the peer's name and, where it was measured, the share of the machine's limit.
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
             (row.at("peer").empty() ? "–" : row.at("peer") + " (" + row.at("peer_name") + ")") + " | " +
             (row.at("ratio").empty() ? "–" : ratio(row));
      if (shares) out += " | " + (row.at("share").empty() ? "–" : fixed(100 * value(row, "share"), 0) + " %");
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
    out += column.starts_with("pp") ? " | prompt of " + column.substr(2) : " | decode at " + column.substr(3);
    line += "|--:";
  }
  out += " |" + line + "|\n";
  for (const auto& [model, cells] : machine.models) {
    if (std::ranges::none_of(columns, [&](const std::string& column) { return cells.contains(column); }))
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

std::string quantizations_table(const std::vector<Row>& rows) {
  std::string out =
      "| mix | MiB | bits/weight | perplexity | change, % | KL divergence | same top, % "
      "|\n|---|--:|--:|--:|--:|--:|--:|\n";
  for (const Row& row : rows)
    out += "| " + row.at("mix") + " | " + row.at("mib") + " | " + row.at("bits_per_weight") + " | " +
           row.at("perplexity") + " | " + row.at("change_percent") + " ± " + row.at("change_error") + " | " +
           row.at("divergence") + " ± " + row.at("divergence_error") + " | " + row.at("same_top_percent") +
           " ± " + row.at("same_top_error") + " |\n";
  return out;
}

std::string speeds_picture(const Machine& machine) {
  BarPlot plot{
      .title = "Tokens per second beside the best peer, by tensor type",
      .subtitle = "1.1 B parameters, 2 threads, " + machine.name + "; best of llama.cpp and ik_llama.cpp",
      .first_name = "cria",
      .second_name = "best peer",
      .panels = {{"prompt of 512", {}}, {"decoding 32", {}}}};
  for (const auto& [model, cells] : machine.models)
    for (const auto& [column, panel] : {std::pair<std::string, std::size_t>{"pp512", 0}, {"tg", 1}})
      if (const auto found = cells.find(column); found != cells.end() && !found->second.at("peer").empty())
        plot.panels[panel].bars.push_back(
            {label(model), value(found->second, "cria"), value(found->second, "peer")});
  return to_svg(plot);
}

std::string perplexity_picture(const std::vector<Row>& rows) {
  ScatterPlot plot{
      .title = "Perplexity over size",
      .subtitle = "the demo model (7.3 M parameters) in all mixes, 40 windows of WikiText-2's test text",
      .x_axis = "MiB",
      .y_axis = "perplexity",
      .points = {},
      .curve = {},
      .curve_label = {}};
  for (const Row& row : rows) {
    if (row.at("mix") == "F32") continue;  // as F16, and so large that the rest would be a heap
    plot.points.push_back({value(row, "mib"), value(row, "perplexity"), 0, row.at("mix")});
  }
  return to_svg(plot);
}

/// text with the table after its mark replaced.
std::string with_table(std::string text, const std::string& name, const std::string& table) {
  const std::string mark = "<!-- " + name + " -->\n";
  const std::size_t begin = text.find(mark), end = text.find("<!-- end -->", begin);
  if (begin == std::string::npos || end == std::string::npos)
    throw std::runtime_error("no place for the table of " + name);
  return text.replace(begin + mark.size(), end - begin - mark.size(), table);
}

int run(const std::string& directory, bool check) {
  const std::vector<Machine> speeds = machines(read_csv(directory + "/speeds.csv"));
  if (speeds.empty()) throw std::runtime_error(directory + "/speeds.csv: there are no figures");
  const std::vector<Row> quantizations = read_csv(directory + "/quantizations.csv");
  std::string readme = read_text(directory + "/README.md");
  for (const Machine& machine : speeds)
    readme = with_table(std::move(readme), "speeds.csv: " + machine.name,
                        main_table(machine) + further_table(machine));
  readme = with_table(std::move(readme), "quantizations.csv", quantizations_table(quantizations));
  int code = 0;
  for (const auto& [name, text] : {std::pair<std::string, std::string>{"README.md", readme},
                                   {"speeds.svg", speeds_picture(speeds.front())},
                                   {"perplexity.svg", perplexity_picture(quantizations)}}) {
    const std::string path = directory + "/" + name;
    if (!check) {
      std::ofstream(path) << text;
    } else if (read_text(path) != text) {
      std::cerr << path << " is not what the figures say: run figures " << directory << '\n';
      code = 1;
    }
  }
  return code;
}

}  // namespace
}  // namespace cria::tools

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool check = arguments.size() == 2 && arguments[1] == "--check";
  if (arguments.empty() || (arguments.size() > 1 && !check)) {
    std::cerr << "usage: figures DIRECTORY [--check]\n";
    return 2;
  }
  try {
    return cria::tools::run(arguments[0], check);
  } catch (const std::exception& error) {
    std::cerr << "figures: " << error.what() << '\n';
    return 1;
  }
}
