// Templates to begin with: every tag, operator, filter, test, method and function, with values of
// every type.
#pragma once

#include <string>
#include <vector>

namespace cria::fuzz {

/// A template, a NUL byte and a JSON object of variables each. What follows a refusal is never
/// reached, so every expression is an input of its own.
std::vector<std::string> jinja_seeds();

/// Tags, operators and names, for the fuzzer's dictionary.
std::vector<std::string> jinja_words();

}  // namespace cria::fuzz
