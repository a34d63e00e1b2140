#include "tools/serve/api/json_text.h"

#include <utility>

#include "model/file/json.h"

namespace cria::serve {

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void ObjectText::begin(std::string_view name) {
  text_.append(text_.empty() ? "{\"" : ",\"").append(name).append("\":");
}

void ObjectText::add(std::string_view name, const Json& value) {
  begin(name);
  text_ += json_text(value);
}

void ObjectText::add_list(std::string_view name, std::size_t items,
                          const std::function<void(std::string& text, std::size_t item)>& append) {
  begin(name);
  text_ += '[';
  for (std::size_t i = 0; i < items; ++i) {
    if (i > 0) text_ += ',';
    append(text_, i);
  }
  text_ += ']';
}

std::string ObjectText::take() {
  text_ += '}';
  return std::move(text_);
}

}  // namespace cria::serve
