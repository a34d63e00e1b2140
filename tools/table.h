// Rows of text in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace cria::tools {

class Table {
 public:
  /// Columns by their headings; one that begins with '>' is aligned to the right.
  explicit Table(std::vector<std::string> headings);
  void add(std::vector<std::string> row);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace cria::tools
