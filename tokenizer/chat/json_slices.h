// Parts of a JSON text as they were written: parsing and printing would change numbers and blanks.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace cria {

/// Finds where an object or array ends, while its text is still growing.
class JsonEnd {
 public:
  /// The text so far, from the value's first byte on; calls go on where the last one ended. One
  /// past the value's last byte, once that is there.
  std::optional<std::size_t> find(std::string_view text);

 private:
  std::size_t at_ = 0, depth_ = 0;
  bool in_string_ = false, escaped_ = false;
};

/// Key (its bytes between the quotes, escapes as they are) and value of every member of an object;
/// the elements of an array, with empty keys. The text must be valid JSON.
std::vector<std::pair<std::string_view, std::string_view>> json_members(std::string_view text);

}  // namespace cria
