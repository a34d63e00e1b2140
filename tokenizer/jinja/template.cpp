#include "tokenizer/jinja/template.h"

#include <algorithm>

#include "model/error.h"
#include "model/file/utf8.h"
#include "model/plural.h"
#include "tokenizer/jinja/run/interpreter.h"
#include "tokenizer/jinja/syntax/lexer.h"
#include "tokenizer/jinja/syntax/parser.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::jinja {
namespace {

constexpr std::size_t kLongestSource = std::size_t{1} << 20;

std::string place(std::string_view source, std::size_t at) {
  const std::string_view before = source.substr(0, std::min(at, source.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t column = length(before.substr(before.rfind('\n') + 1)) + 1;  // npos + 1 is 0
  return "at line " + std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace

struct Template::Parsed {
  std::string name, source;
  Tree tree;
};

Template Template::parse(std::string_view source, std::string name) {
  if (source.size() > kLongestSource)
    throw Error(name, "the template is too large: expected at most 1 MiB, got " +
                          counted(source.size(), "byte"));
  if (!is_utf8(source)) throw Error(name, "the template is not UTF-8");
  auto parsed = std::make_shared<Parsed>();
  parsed->name = std::move(name);
  parsed->source = normalized(source);
  try {
    parsed->tree = jinja::parse(parsed->source);
  } catch (const SyntaxError& error) {
    throw Error(parsed->name, error.what(), place(parsed->source, error.at));
  }
  Template out;
  out.parsed_ = std::move(parsed);
  return out;
}

Text Template::render(const Dict& variables, const std::tm& now, const Limits& limits) const {
  Budget budget(limits, variables.extent().weight);
  Context context{budget, now};
  Interpreter interpreter(context, variables);
  try {
    return interpreter.render(parsed_->tree.body);
  } catch (const OverBudget& failure) {
    throw LimitError(parsed_->name, failure.what(), place(parsed_->source, interpreter.at()));
  } catch (const Failure& failure) {
    throw Error(parsed_->name, failure.what(), place(parsed_->source, interpreter.at()));
  }
}

bool Template::reads(std::string_view variable) const {
  return std::ranges::count(parsed_->tree.variables, variable) != 0;
}

bool Template::reads_member(std::string_view name) const {
  return std::ranges::count(parsed_->tree.members, name) != 0;
}

}  // namespace cria::jinja
