// Names of the request readers used here, and JSON as the text of an answer.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "model/file/json.h"
#include "tools/requests/request.h"

namespace cria::serve {

using tools::CompletionRequest;
using tools::Fields;
using tools::PromptText;
using tools::RequestError;
using tools::ToolFields;

/// Returns JSON on one line; invalid UTF-8 becomes U+FFFD.
std::string json_text(const Json& json);

/// Writes an object member by member: as a tree, a long list takes many times the memory of its
/// text.
class ObjectText {
 public:
  /// The names are ASCII without quotes.
  void add(std::string_view name, const Json& value);
  /// append adds the text of one item.
  void add_list(std::string_view name, std::size_t items,
                const std::function<void(std::string& text, std::size_t item)>& append);
  /// Returns the object. Call it once, at the end.
  [[nodiscard]] std::string take();

 private:
  void begin(std::string_view name);

  std::string text_;
};

}  // namespace cria::serve
