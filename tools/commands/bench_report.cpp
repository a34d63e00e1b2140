#include "tools/commands/bench_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "engine/model_parts.h"
#include "tools/report/answer.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

/// For programs: what is shown without digits after the point and has none is a whole number.
bool is_whole(double number, const FigureColumn& column) {
  return column.digits == 0 && number == std::trunc(number) && std::abs(number) < 1e15;
}

}  // namespace

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::vector<std::string> FiguresTable::headings() const {
  std::vector<std::string> titles;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const bool text = std::ranges::any_of(
        rows_, [i](const auto& row) { return std::holds_alternative<std::string>(row[i]); });
    titles.push_back((text ? "" : ">") + columns_[i].title);
  }
  return titles;
}

std::vector<std::string> FiguresTable::cells(const std::vector<Figure>& row) const {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (const auto* text = std::get_if<std::string>(&row[i]))
      texts.push_back(*text);
    else if (const auto* number = std::get_if<double>(&row[i]))
      texts.push_back(fixed(*number, columns_[i].digits));
    else
      texts.emplace_back();
  }
  return texts;
}

void FiguresTable::print_csv(std::ostream& out) const {
  for (std::size_t i = 0; i < columns_.size(); ++i) out << (i == 0 ? "" : ",") << columns_[i].key;
  out << '\n';
  for (const auto& row : rows_) {
    const std::vector<std::string> texts = cells(row);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto* number = std::get_if<double>(&row[i]);
      const bool as_shown = number == nullptr || is_whole(*number, columns_[i]);
      out << (i == 0 ? "" : ",")
          << (as_shown ? csv_cell(texts[i]) : fixed(*number, columns_[i].digits + 3));
    }
    out << '\n';
  }
}

void FiguresTable::print_json(std::ostream& out) const {
  Json list = Json::array();
  for (const auto& row : rows_) {
    Json entry = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      Json& value = entry[columns_[i].key];
      if (const auto* text = std::get_if<std::string>(&row[i]))
        value = *text;
      else if (const auto* number = std::get_if<double>(&row[i]))
        value = is_whole(*number, columns_[i]) ? Json(std::int64_t(*number)) : Json(*number);
    }
    list.push_back(std::move(entry));
  }
  out << json_text(list);
}

void FiguresTable::print(std::ostream& out, BenchFormat format) const {
  if (format == BenchFormat::JsonArray) return print_json(out);
  if (format == BenchFormat::Csv) return print_csv(out);
  const std::vector<std::string> titles = headings();
  if (format == BenchFormat::Table) {
    Table table(titles);
    for (const auto& row : rows_) table.add(cells(row));
    out << table.text(stdout);
    return;
  }
  std::string rule = "|";
  for (const std::string& title : titles) {
    const bool right = title.starts_with('>');
    out << "| " << title.substr(right ? 1 : 0) << ' ';
    rule += right ? "--:|" : "---|";
  }
  out << "|\n" << rule << '\n';
  for (const auto& row : rows_) {
    for (const std::string& cell : cells(row)) out << "| " << cell << ' ';
    out << "|\n";
  }
}

namespace {

/// One operation's microseconds.
double each(const GatherReport::Row& row) {
  return row.times == 0 ? 0 : 1e6 * row.seconds / static_cast<double>(row.times);
}

}  // namespace

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

void add_members(Json& object, const GatherReport& report) {
  const auto tokens = static_cast<double>(report.tokens);
  const GatherReport::Row& all = report.rows.back();
  object["ranks"] = report.ranks;
  object["gather_share"] = all.seconds / report.seconds;
  object["gather_bytes_per_token"] = static_cast<double>(all.bytes) / tokens;
  Json& nodes = object["gathers"] = Json::array();
  for (const GatherReport::Row& row : std::span(report.rows).first(report.rows.size() - 1))
    nodes.push_back({{"node", row.node},
                     {"times_per_token", static_cast<double>(row.times) / tokens},
                     {"bytes_per_token", static_cast<double>(row.bytes) / tokens},
                     {"microseconds_each", each(row)},
                     {"microseconds_per_token", 1e6 * row.seconds / tokens}});
}

namespace {

std::string number(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

bool has_roofline(const std::vector<BenchRow>& rows) {
  return std::ranges::any_of(rows, [](const BenchRow& row) { return row.roofline_fraction >= 0; });
}

/// Figures that were not measured have no column.
std::vector<std::string> titles(bool roofline) {
  std::vector<std::string> all = {"model", "type",      ">size", ">threads",
                                  "test",  ">tokens/s", ">GB/s", ">GMAC/s"};
  if (roofline) all.emplace_back(">roofline");
  return all;
}

std::vector<std::string> cells(const BenchRow& row, bool roofline) {
  std::vector<std::string> all = {row.model,
                                  row.dtype,
                                  human_bytes(row.weight_bytes),
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
  Json list = Json::array();
  for (const BenchRow& row : rows) {
    Json entry = {{"model", row.model},
                  {"dtype", row.dtype},
                  {"threads", row.threads},
                  {"test", row.test},
                  {"tokens_per_second", row.tokens_per_second},
                  {"stddev", row.stddev},
                  {"gbytes_per_second",
                   row.gbytes_per_second > 0 ? Json(row.gbytes_per_second) : Json(nullptr)},
                  {"gmac_per_second", row.gmac_per_second}};
    entry["roofline_fraction"] = row.roofline_fraction < 0 ? Json() : Json(row.roofline_fraction);
    if (row.gathers) add_members(entry, *row.gathers);
    list.push_back(std::move(entry));
  }
  out << json_text(list);
}

}  // namespace

void print_report(std::ostream& out, BenchFormat format, const std::vector<BenchRow>& rows) {
  switch (format) {
    case BenchFormat::JsonArray:
      return print_json(out, rows);
    case BenchFormat::Csv:
      return print_csv(out, rows);
    case BenchFormat::Table:
      return print_table(out, rows);
    case BenchFormat::Markdown:
      return print_markdown(out, rows);
  }
}

Flags report_flags(BenchFormat& format) {
  const auto set = [&format](BenchFormat named) {
    return into::action([&format, named] { format = named; });
  };
  return {{"--json",
           "",
           "an array of objects",
           set(BenchFormat::JsonArray),
           {.excludes = "--csv,--md"}},
          {"--csv", "", "comma-separated values", set(BenchFormat::Csv), {.excludes = "--md"}},
          {"--md", "", "a Markdown table", set(BenchFormat::Markdown)}};
}

}  // namespace cria::tools
