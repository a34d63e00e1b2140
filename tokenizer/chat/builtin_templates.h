// The chat templates that cria brings along, for models whose files have none.
#pragma once

#include <span>
#include <string_view>

namespace cria {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view source;  ///< Jinja2
  std::string_view stop;    ///< a text that ends an answer, where no token does; or ""
};

std::span<const BuiltinTemplate> builtin_templates();
/// Null for an unknown name.
const BuiltinTemplate* find_builtin_template(std::string_view name);

}  // namespace cria
