// Filters ({{ x|upper }}) and tests ({{ x is defined }}) by name.
#pragma once

#include <string_view>

#include "tokenizer/jinja/builtins/call.h"

namespace cria::jinja {

/// Throws Failure for an unknown name too.
Value apply_filter(Context& context, std::string_view name, const Value& input,
                   const Arguments& arguments);
bool apply_test(Context& context, std::string_view name, const Value& input,
                const Arguments& arguments);

struct NamedFilter {
  std::string_view name;
  Value (*run)(Context& context, const Value& input, const Arguments& arguments);
};
/// Filters that make a text or a number, and those that go through the elements of a sequence.
const NamedFilter* find_scalar_filter(std::string_view name);
const NamedFilter* find_sequence_filter(std::string_view name);
bool is_filter(std::string_view name);
bool is_test(std::string_view name);

}  // namespace cria::jinja
