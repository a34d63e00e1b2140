#include "tools/report/bench_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "tools/report/figures_table.h"
#include "tools/report/json.h"
#include "tools/report/table.h"

namespace cria::tools {
namespace {

std::string number(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

bool has_roofline(const std::vector<BenchRow>& rows) {
  return std::ranges::any_of(rows, [](const BenchRow& row) { return row.roofline_fraction >= 0; });
}

/// What was not measured has no column.
std::vector<std::string> titles(bool roofline) {
  std::vector<std::string> all = {"model", "type",      ">size", ">threads",
                                  "test",  ">tokens/s", ">GB/s", ">GMAC/s"};
  if (roofline) all.emplace_back(">roofline");
  return all;
}

std::vector<std::string> cells(const BenchRow& row, bool roofline) {
  std::vector<std::string> all = {row.model,
                                  row.dtype,
                                  number(static_cast<double>(row.weight_bytes) / 1e6, 1) + " MB",
                                  std::to_string(row.threads),
                                  row.test,
                                  number(row.tokens_per_second, 2) + " ± " + number(row.stddev, 2),
                                  row.gbytes_per_second > 0 ? number(row.gbytes_per_second, 1) : "",
                                  number(row.gmac_per_second, 1)};
  if (roofline)
    all.push_back(row.roofline_fraction < 0 ? "" : number(100 * row.roofline_fraction, 1) + " %");
  return all;
}

/// Several ranks: a second table of what they gather.
void print_gathers(std::ostream& out, BenchFormat format, const std::vector<BenchRow>& rows) {
  FiguresTable table = gather_table();
  for (const BenchRow& row : rows)
    if (row.gathers) add_rows(table, row.test, *row.gathers);
  if (table.empty()) return;
  out << '\n';
  table.print(out, format);
}

void print_table(std::ostream& out, const std::vector<BenchRow>& rows) {
  const bool roofline = has_roofline(rows);
  Table table(titles(roofline));
  for (const BenchRow& row : rows) table.add(cells(row, roofline));
  out << table.text(stdout);
  print_gathers(out, BenchFormat::Table, rows);
}

void print_markdown(std::ostream& out, const std::vector<BenchRow>& rows) {
  const bool roofline = has_roofline(rows);
  std::string rule = "|";
  for (const std::string_view title : titles(roofline)) {
    out << "| " << title.substr(title.starts_with('>') ? 1 : 0) << ' ';
    rule += title.starts_with('>') ? "--:|" : "---|";
  }
  out << "|\n" << rule << '\n';
  for (const BenchRow& row : rows) {
    for (const std::string& cell : cells(row, roofline)) out << "| " << cell << ' ';
    out << "|\n";
  }
  print_gathers(out, BenchFormat::Markdown, rows);
}

void print_csv(std::ostream& out, const std::vector<BenchRow>& rows) {
  out << "model,dtype,threads,test,tokens_per_second,stddev,gbytes_per_second,gmac_per_second,"
         "roofline_"
         "fraction\n";
  for (const BenchRow& row : rows) {
    out << csv_cell(row.model) << ',' << row.dtype << ',' << row.threads << ',' << row.test << ','
        << number(row.tokens_per_second, 4) << ',' << number(row.stddev, 4) << ','
        << number(row.gbytes_per_second, 4) << ',' << number(row.gmac_per_second, 4) << ','
        << (row.roofline_fraction < 0 ? "" : number(row.roofline_fraction, 4)) << '\n';
  }
}

void print_json(std::ostream& out, const std::vector<BenchRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BenchRow& row : rows) {
    nlohmann::ordered_json entry = {{"model", row.model},
                                    {"dtype", row.dtype},
                                    {"threads", row.threads},
                                    {"test", row.test},
                                    {"tokens_per_second", row.tokens_per_second},
                                    {"stddev", row.stddev},
                                    {"gbytes_per_second", row.gbytes_per_second},
                                    {"gmac_per_second", row.gmac_per_second}};
    entry["roofline_fraction"] = row.roofline_fraction < 0
                                     ? nlohmann::ordered_json()
                                     : nlohmann::ordered_json(row.roofline_fraction);
    if (row.gathers) add_members(entry, *row.gathers);
    list.push_back(std::move(entry));
  }
  out << json_text(list);
}

}  // namespace

void print_report(std::ostream& out, BenchFormat format, const std::vector<BenchRow>& rows) {
  switch (format) {
    case BenchFormat::Json:
      return print_json(out, rows);
    case BenchFormat::Csv:
      return print_csv(out, rows);
    case BenchFormat::Table:
      return print_table(out, rows);
    case BenchFormat::Markdown:
      return print_markdown(out, rows);
  }
}

std::string roofline_text(const Roofline& limits) {
  std::string text = "read " + number(limits.read_gbytes, 1) + " GB/s";
  const auto add = [&](const char* name, double gmacs) {
    if (gmacs > 0) text += std::string(", ") + name + " " + number(gmacs, 1) + " GMAC/s";
  };
  add("int8 dot", limits.int8_gmacs);
  add("float32", limits.float_gmacs);
  add("bfloat16", limits.bf16_gmacs);
  add("int8 matrix unit", limits.matrix_gmacs);
  return text;
}

}  // namespace cria::tools
