#include "tools/bench_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

namespace cria::tools {
namespace {

std::string number(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

constexpr std::array kTitles = {"model", "type", "size", "threads", "test", "tokens/s", "GB/s", "GMAC/s", "roofline"};
using Cells = std::array<std::string, kTitles.size()>;

Cells cells(const BenchRow& row) {
  return {row.model,
          row.dtype,
          number(static_cast<double>(row.weight_bytes) / 1e6, 1) + " MB",
          std::to_string(row.threads),
          row.test,
          number(row.tokens_per_second, 2) + " ± " + number(row.stddev, 2),
          number(row.gbytes_per_second, 1),
          number(row.gmac_per_second, 1),
          row.roofline_fraction < 0 ? "" : number(100 * row.roofline_fraction, 1) + " %"};
}

/// Columns on a terminal: UTF-8 continuation bytes take no room.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void print_table(std::ostream& out, const std::vector<BenchRow>& rows, bool markdown) {
  std::vector<Cells> lines(1);
  std::copy(kTitles.begin(), kTitles.end(), lines[0].begin());
  for (const BenchRow& row : rows) lines.push_back(cells(row));
  std::array<std::size_t, kTitles.size()> widths{};
  for (const Cells& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  const char* gap = markdown ? " | " : "  ";
  for (std::size_t n = 0; n < lines.size(); ++n) {
    out << (markdown ? "| " : "");
    for (std::size_t i = 0; i < lines[n].size(); ++i) {
      const std::string pad(widths[i] - width(lines[n][i]), ' ');
      out << (i < 2 || i == 4 ? lines[n][i] + pad : pad + lines[n][i]) << (i + 1 < lines[n].size() ? gap : "");
    }
    out << (markdown ? " |\n" : "\n");
    if (n == 0 && markdown) {
      for (std::size_t i = 0; i < widths.size(); ++i) out << (i < 2 || i == 4 ? "|---" : "|--:");
      out << "|\n";
    }
  }
}

void print_csv(std::ostream& out, const std::vector<BenchRow>& rows) {
  out << "model,dtype,threads,test,tokens_per_second,stddev,gbytes_per_second,gmac_per_second,roofline_fraction\n";
  for (const BenchRow& row : rows) {
    out << row.model << ',' << row.dtype << ',' << row.threads << ',' << row.test << ','
        << number(row.tokens_per_second, 4) << ',' << number(row.stddev, 4) << ',' << number(row.gbytes_per_second, 4)
        << ',' << number(row.gmac_per_second, 4) << ','
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
    entry["roofline_fraction"] = row.roofline_fraction < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(row.roofline_fraction);
    list.push_back(std::move(entry));
  }
  out << list.dump(1) << '\n';
}

}  // namespace

void print_report(std::ostream& out, BenchFormat format, const std::vector<BenchRow>& rows) {
  switch (format) {
    case BenchFormat::Json: return print_json(out, rows);
    case BenchFormat::Csv: return print_csv(out, rows);
    case BenchFormat::Table: return print_table(out, rows, false);
    case BenchFormat::Markdown: return print_table(out, rows, true);
  }
}

}  // namespace cria::tools
