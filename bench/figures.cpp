// figures DIRECTORY [--check]: of the measured figures in DIRECTORY/speeds.csv and quantizations.csv, the pictures
// speeds.svg and perplexity.svg and the tables in README.md between "<!-- NAME.csv -->" and "<!-- end -->". A ratio
// is the quotient of the two figures beside it, and bold where it is above 1.1: less is within the error. --check:
// writes nothing; exit code 1 where a file is not what it would be.
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

std::string ratio(const Row& row, const std::string& test) {
  const std::string text = fixed(value(row, test) / value(row, test + "_peer"), 2);
  return std::strtod(text.c_str(), nullptr) > 1.1 ? "**" + text + "**" : text;
}

std::string speeds_table(const std::vector<Row>& rows) {
  std::string out =
      "| type | prompt, cria | best peer | ratio | decode, cria | best peer | ratio "
      "|\n|---|--:|--:|--:|--:|--:|--:|\n";
  for (const Row& row : rows) {
    out += "| " + row.at("type");
    for (const std::string test : {"prompt", "decode"})
      out += " | " + row.at(test) + " | " + row.at(test + "_peer") + " (" + row.at(test + "_peer_name") +
             ") | " + ratio(row, test);
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

std::string speeds_picture(const std::vector<Row>& rows) {
  BarPlot plot{
      .title = "Tokens per second beside the best peer, by tensor type",
      .subtitle = "1.1 B parameters, 2 threads, AMD EPYC (Zen 4); best of llama.cpp and ik_llama.cpp",
      .first_name = "cria",
      .second_name = "best peer",
      .panels = {{"prompt of 512", {}}, {"decoding 32", {}}}};
  for (const Row& row : rows) {
    plot.panels[0].bars.push_back({row.at("type"), value(row, "prompt"), value(row, "prompt_peer")});
    plot.panels[1].bars.push_back({row.at("type"), value(row, "decode"), value(row, "decode_peer")});
  }
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
  const std::vector<Row> speeds = read_csv(directory + "/speeds.csv"),
                         quantizations = read_csv(directory + "/quantizations.csv");
  std::string readme = read_text(directory + "/README.md");
  readme = with_table(std::move(readme), "speeds.csv", speeds_table(speeds));
  readme = with_table(std::move(readme), "quantizations.csv", quantizations_table(quantizations));
  int code = 0;
  for (const auto& [name, text] : {std::pair<std::string, std::string>{"README.md", readme},
                                   {"speeds.svg", speeds_picture(speeds)},
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
