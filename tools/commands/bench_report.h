// The reports of `cria bench` and `cria plan`: rows of figures as a table, JSON, CSV or Markdown.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "model/file/json.h"
#include "tools/cli/flag.h"
#include "tools/report/roofline.h"

namespace cria::tools {

enum class BenchFormat { Table, Markdown, Csv, JsonArray };

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

/// Communication of one test on several ranks, as rank 0 measured it.
struct GatherReport {
  struct Row {
    std::string node;         ///< in all layers
    std::uint64_t times = 0;  ///< number of operations
    std::uint64_t bytes = 0;  ///< bytes of all ranks' shards
    double seconds = 0;       ///< waiting for ranks that still compute, too
  };
  unsigned ranks = 0;
  std::size_t tokens = 0;  ///< computed by the test
  double seconds = 0;      ///< in which it has
  std::vector<Row> rows;   ///< nodes that are gathered, in the graph's order; then all

  /// times: of the nodes of a session that computed just these tokens.
  static GatherReport of(unsigned ranks, std::size_t tokens, double seconds,
                         std::span<const NodeTime> times);
};

/// Rows of tests, for people.
FiguresTable gather_table();
void add_rows(FiguresTable& table, const std::string& test, const GatherReport& report);
/// Members "ranks", "gather_share", "gather_bytes_per_token" and "gathers", of nodes, are added to
/// an object.
void add_members(Json& object, const GatherReport& report);

/// One measured line: a test of a model on a number of threads.
struct BenchRow {
  std::string model;           ///< file or SHAPE:TYPE
  std::string dtype;           ///< the type most weights have
  std::uint64_t weight_bytes;  ///< bytes of weights that one decoded token reads
  unsigned threads;
  std::string test;          ///< "pp512", "tg128", with depth "tg128@d4096"
  double tokens_per_second;  ///< mean over the repetitions
  double stddev;
  double gbytes_per_second;  ///< weights read per second (decode)
  double gmac_per_second;    ///< multiply-adds per second
  double roofline_fraction;  ///< tg: of the read rate; pp: of the multiply-add peak; negative: not
                             ///< measured
  std::optional<GatherReport> gathers;  ///< where several ranks have computed
};

void print_report(std::ostream& out, BenchFormat format, const std::vector<BenchRow>& rows);

/// --json, --csv, --md, one of them.
Flags report_flags(BenchFormat& format);

}  // namespace cria::tools
