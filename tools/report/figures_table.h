// A table of figures as a person or a program wants it: aligned columns, Markdown, CSV or JSON.
#pragma once

#include <iosfwd>
#include <string>
#include <variant>
#include <vector>

#include "tools/report/bench_report.h"

namespace cria::tools {

struct FigureColumn {
  std::string key;    ///< in CSV and JSON
  std::string title;  ///< for people
  int digits = 0;     ///< after the point, for people
};

/// A cell; monostate: not known.
using Figure = std::variant<std::monostate, std::string, double>;

/// A text as a cell of CSV: in quotes where it needs them.
std::string csv_cell(const std::string& text);

class FiguresTable {
 public:
  explicit FiguresTable(std::vector<FigureColumn> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Figure> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  void print(std::ostream& out, BenchFormat format) const;

 private:
  [[nodiscard]] std::vector<std::string> cells(const std::vector<Figure>& row) const;
  void print_csv(std::ostream& out) const;
  void print_json(std::ostream& out) const;
  [[nodiscard]] std::vector<std::string> headings() const;  ///< numbers to the right: ">title"

  std::vector<FigureColumn> columns_;
  std::vector<std::vector<Figure>> rows_;
};

}  // namespace cria::tools
