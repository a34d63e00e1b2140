#include "tokenizer/jinja/run/macro.h"

#include <algorithm>

namespace cria::jinja {

MacroArguments match_arguments(const MacroDefinition& macro, const Arguments& arguments) {
  const std::string who = "macro '" + macro.name + "' ";
  MacroArguments out;
  const std::size_t n = macro.parameters.size();
  out.parameters.resize(n);
  std::vector<Value> varargs;
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < n)
      out.parameters[i] = arguments.positional[i];
    else if (macro.uses_varargs)
      varargs.push_back(arguments.positional[i]);
    else
      throw Failure(who + "takes not more than " + std::to_string(n) + " argument(s)");
  }
  Value caller = Value::undefined("No caller defined");
  Dict kwargs;
  for (const auto& [key, value] : arguments.named) {
    const std::string& name = key.bytes();
    const auto found =
        std::ranges::find(macro.parameters, name, &std::pair<std::string, ExprPtr>::first);
    if (found != macro.parameters.end()) {
      auto& slot = out.parameters[static_cast<std::size_t>(found - macro.parameters.begin())];
      if (slot) throw Failure(who + "got two values for argument '" + name + "'");
      slot = value;
    } else if (name == "caller" && macro.uses_caller) {
      caller = value;
    } else if (macro.uses_kwargs) {
      kwargs.set(key, value);
    } else {
      throw Failure(who + "takes no keyword argument '" + name + "'");
    }
  }
  if (macro.uses_caller) out.special.emplace_back("caller", caller);
  if (macro.uses_varargs)
    out.special.emplace_back("varargs", List(std::move(varargs), List::Kind::Tuple));
  if (macro.uses_kwargs) out.special.emplace_back("kwargs", std::move(kwargs));
  return out;
}

}  // namespace cria::jinja
