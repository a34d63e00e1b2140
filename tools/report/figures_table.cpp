#include "tools/report/figures_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "tools/report/json.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

using FigureJson = nlohmann::ordered_json;

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
  FigureJson list = FigureJson::array();
  for (const auto& row : rows_) {
    FigureJson entry = FigureJson::object();
    for (std::size_t i = 0; i < row.size(); ++i) {
      FigureJson& value = entry[columns_[i].key];
      if (const auto* text = std::get_if<std::string>(&row[i]))
        value = *text;
      else if (const auto* number = std::get_if<double>(&row[i]))
        value = is_whole(*number, columns_[i]) ? FigureJson(std::int64_t(*number))
                                               : FigureJson(*number);
    }
    list.push_back(std::move(entry));
  }
  out << json_text(list);
}

void FiguresTable::print(std::ostream& out, BenchFormat format) const {
  if (format == BenchFormat::Json) return print_json(out);
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

}  // namespace cria::tools
