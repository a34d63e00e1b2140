// figures DIRECTORY [--check]: of the measured figures in DIRECTORY/speeds.csv and
// quantizations.csv, the pictures speeds.svg (of the first machine) and perplexity.svg, and the
// tables in README.md between "<!-- NAME.csv -->", for one machine's speeds "<!-- speeds.csv:
// MACHINE -->", and "<!-- end -->"; all machines' in a line each also in the README.md above
// DIRECTORY. --check: writes nothing; exit code 1 where a file is not what it would be.
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "bench/speed_tables.h"
#include "tools/report/bar_plot.h"
#include "tools/report/scatter_plot.h"

namespace cria::tools {
namespace {

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
      throw std::runtime_error(path + ": expected " + std::to_string(names.size()) +
                               " cells, got " + line);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i == 0) rows.emplace_back();
      rows.back()[names[i]] = values[i];
    }
  }
  return rows;
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
  BarPlot plot{.title = "Tokens per second beside the best peer, by tensor type",
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

/// Files by name, as they should be.
std::vector<std::pair<std::string, std::string>> made(const std::string& directory) {
  const std::vector<Machine> speeds = machines(read_csv(directory + "/speeds.csv"));
  if (speeds.empty()) throw std::runtime_error(directory + "/speeds.csv: there are no figures");
  const std::vector<Row> quantizations = read_csv(directory + "/quantizations.csv");
  const std::string overview = overview_table(speeds), top = directory + "/../README.md";
  std::string readme = with_table(read_text(directory + "/README.md"), "speeds.csv", overview);
  for (const Machine& machine : speeds)
    readme = with_table(std::move(readme), "speeds.csv: " + machine.name, machine_tables(machine));
  readme = with_table(std::move(readme), "quantizations.csv", quantizations_table(quantizations));
  return {{directory + "/README.md", readme},
          {top, with_table(read_text(top), "speeds.csv", overview)},
          {directory + "/speeds.svg", speeds_picture(speeds.front())},
          {directory + "/perplexity.svg", perplexity_picture(quantizations)}};
}

int run(const std::string& directory, bool check) {
  int code = 0;
  for (const auto& [path, text] : made(directory)) {
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
