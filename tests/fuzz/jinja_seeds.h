// Seeds of templates: every tag, operator, filter, test, method and function, with values of
// every type.
#pragma once

#include <string>
#include <vector>

namespace cria::fuzz {

/// Each is a template, a NUL byte and a JSON object of variables. An error ends the evaluation, so
/// each expression is a separate input.
std::vector<std::string> jinja_seeds();

/// Tags, operators and names for the fuzzer's dictionary.
std::vector<std::string> jinja_words();

}  // namespace cria::fuzz
