// Tables, JSON as every command prints it, and metadata of a file as JSON.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/file/json.h"
#include "model/gguf/gguf.h"

namespace cria::tools {

class Table {
 public:
  /// Columns by their headings; one that begins with '>' is aligned to the right.
  explicit Table(std::vector<std::string> headings);
  void add(std::vector<std::string> row);
  /// Lines of at most `columns` (0: unlimited). Texts are broken at words; longer words continue in
  /// the next line. If the numbers are too wide, some columns follow below the others, after the
  /// first column again.
  [[nodiscard]] std::string text(std::size_t columns = 0) const;
  /// Lines that fit the stream's terminal; unlimited without a terminal.
  [[nodiscard]] std::string text(std::FILE* stream) const;

 private:
  using Widths = std::vector<std::size_t>;
  [[nodiscard]] Widths natural_widths() const;
  [[nodiscard]] std::size_t least_width(std::size_t column, std::size_t natural) const;
  [[nodiscard]] bool shrink(Widths& widths, const std::vector<std::size_t>& shown,
                            std::size_t columns) const;
  [[nodiscard]] std::string block(const Widths& widths,
                                  const std::vector<std::size_t>& shown) const;

  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

/// Indented by one blank, with a newline at the end; invalid UTF-8 becomes U+FFFD.
std::string json_text(const Json& json);
/// On one line with a newline, for a line of many.
std::string json_line(const Json& json);

/// Takes at most `most` elements of each array, also of nested ones.
Json metadata_json(const GgufFile& file, const GgufValue& value,
                   std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// The same as text, indented by one space a level (the value itself stands at `indent` spaces), in
/// small pieces: only one array element is in memory at a time.
void write_metadata_json(const GgufFile& file, const GgufValue& value, std::size_t indent,
                         const std::function<void(std::string_view)>& put);

}  // namespace cria::tools
