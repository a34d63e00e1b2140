// Rows of text in aligned columns.
#pragma once
#include <cstdio>
#include <string>
#include <vector>

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

}  // namespace cria::tools
