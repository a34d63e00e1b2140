// str's methods.
#pragma once

#include <span>
#include <string_view>

#include "tokenizer/jinja/builtins/call.h"

namespace cria::jinja {

struct Method {
  std::string_view name;
  Value (*run)(Context& context, const Value& self, const Arguments& arguments);
};

std::span<const Method> string_methods();

}  // namespace cria::jinja
