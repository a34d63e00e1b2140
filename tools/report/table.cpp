#include "tools/report/table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <type_traits>
#include <utility>

#include "model/file/json.h"
#include "model/gguf/writer.h"
#include "tools/terminal/wrap.h"

namespace cria::tools {

namespace {

constexpr std::size_t kGap = 2;       // blanks between columns
constexpr std::size_t kMinText = 12;  // a column of texts is not made narrower

/// A cell's lines, none wider than its column. A longer name or path continues in the next line.
std::vector<std::string> lines_of(const std::string& cell, std::size_t width) {
  std::istringstream in(wrapped(cell, width));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    for (std::string& piece : pieces(line, width)) lines.push_back(std::move(piece));
  if (lines.empty()) lines.emplace_back();
  return lines;
}

std::size_t sum(const std::vector<std::size_t>& widths, const std::vector<std::size_t>& shown) {
  std::size_t total = shown.empty() ? 0 : kGap * (shown.size() - 1);
  for (const std::size_t i : shown) total += widths[i];
  return total;
}

}  // namespace

Table::Table(std::vector<std::string> headings) {
  for (std::string& heading : headings) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
  rows_.push_back(std::move(headings));
}

void Table::add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

Table::Widths Table::natural_widths() const {
  Widths widths(right_.size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], display_width(row[i]));
  return widths;
}

/// Numbers need their width; texts can do with less.
std::size_t Table::least_width(std::size_t column, std::size_t natural) const {
  return right_[column] ? natural : std::min(natural, kMinText);
}

/// Makes the widest columns of texts narrower until the shown ones fit; false if they cannot.
bool Table::shrink(Widths& widths, const std::vector<std::size_t>& shown,
                   std::size_t columns) const {
  while (sum(widths, shown) > columns) {
    std::size_t widest = right_.size();
    for (const std::size_t i : shown)
      if (widths[i] > least_width(i, widths[i]) &&
          (widest == right_.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == right_.size()) return false;
    --widths[widest];
  }
  return true;
}

std::string Table::block(const Widths& widths, const std::vector<std::size_t>& shown) const {
  std::string out;
  for (const auto& row : rows_) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (const std::size_t i : shown) {
      cells.push_back(i < row.size() ? lines_of(row[i], widths[i]) : std::vector<std::string>{""});
      height = std::max(height, cells.back().size());
    }
    for (std::size_t at = 0; at < height; ++at) {
      std::string line;
      for (std::size_t c = 0; c < shown.size(); ++c) {
        const std::string cell = at < cells[c].size() ? cells[c][at] : "";
        const std::string pad(widths[shown[c]] - display_width(cell), ' ');
        line +=
            (c == 0 ? "" : std::string(kGap, ' ')) + (right_[shown[c]] ? pad + cell : cell + pad);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
  }
  return out;
}

std::string Table::text(std::size_t columns) const {
  const Widths natural = natural_widths();
  std::vector<std::size_t> all(right_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  Widths widths = natural;
  if (columns == 0 || shrink(widths, all, columns)) return block(widths, all);

  std::string out;
  for (std::size_t next = 1; next < all.size();) {
    std::vector<std::size_t> shown = {0, next++};
    const auto fits = [&](const std::vector<std::size_t>& some) {
      widths = natural;
      return shrink(widths, some, columns);
    };
    for (; next < all.size(); ++next) {
      std::vector<std::size_t> more = shown;
      more.push_back(next);
      if (!fits(more)) break;
      shown = more;
    }
    if (!fits(shown))  // one number after the first column, which shrinks
      widths[0] = std::max<std::size_t>(1, columns - std::min(columns, widths[shown[1]] + kGap));
    out += (out.empty() ? "" : "\n") + block(widths, shown);
  }
  return out;
}

std::string Table::text(std::FILE* stream) const { return text(terminal_columns(stream)); }

std::string json_text(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}
std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

/// Returns the double with the shortest digits that mean this float: 1e-06, not
/// 9.999999974752427e-07.
double shortest(float value) {
  if (!std::isfinite(value)) return value;
  char digits[32];
  const char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  double same = value;
  std::from_chars(digits, end, same);
  return same;
}

Json scalar_json(const GgufData& data) {
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, GgufArray>)
          return nullptr;  // not a scalar
        else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, float>)
          return shortest(value);
        else
          return value;
      },
      static_cast<const GgufDataVariant&>(data));
}

}  // namespace

Json metadata_json(const GgufFile& file, const GgufValue& value, std::uint64_t most) {
  if (value.type != GgufType::Array) return scalar_json(copy_value(file, value));
  auto list = Json::array();
  file.visit_elements(
      value, [&](const GgufValue& element) { list.push_back(metadata_json(file, element, most)); },
      most);
  return list;
}

void write_metadata_json(const GgufFile& file, const GgufValue& value, std::size_t indent,
                         const std::function<void(std::string_view)>& put) {
  if (value.type != GgufType::Array)
    return put(
        scalar_json(copy_value(file, value)).dump(-1, ' ', false, Json::error_handler_t::replace));
  if (value.count == 0) return put("[]");
  const std::string margin(indent, ' ');
  const char* before = "[\n";
  file.visit_elements(value, [&](const GgufValue& element) {
    put(before + margin + " ");
    write_metadata_json(file, element, indent + 1, put);
    before = ",\n";
  });
  put("\n" + margin + "]");
}

}  // namespace cria::tools
