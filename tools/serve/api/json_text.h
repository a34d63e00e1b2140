// JSON as the text of an answer.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "tools/options/fields.h"

namespace cria::serve {

/// On one line; bytes that are no UTF-8 become U+FFFD.
std::string json_text(const tools::RequestJson& json);

/// An object that is written member by member. As a tree, a long list would take many times the
/// memory of its text.
class ObjectText {
 public:
  /// The names are ASCII without quotes.
  void add(std::string_view name, const tools::RequestJson& value);
  /// append: adds the text of an item.
  void add_list(std::string_view name, std::size_t items,
                const std::function<void(std::string& text, std::size_t item)>& append);
  /// Once, at the end.
  [[nodiscard]] std::string take();

 private:
  void begin(std::string_view name);

  std::string text_;
};

}  // namespace cria::serve
