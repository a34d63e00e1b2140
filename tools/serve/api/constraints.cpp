#include "tools/serve/api/constraints.h"

#include <algorithm>

namespace cria::serve {
namespace {

constexpr std::size_t kMostConstraints = 64;  // that are kept

}  // namespace

Constraints::Pointer Constraints::find(const std::string& key, const std::function<Pointer()>& compile) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      return entries_.front().constraint;
    }
  }
  Pointer made = compile();  // others need not wait for it
  const std::lock_guard lock(mutex_);
  entries_.push_front({key, made});
  if (entries_.size() > kMostConstraints) entries_.pop_back();
  return made;
}

Constraints::Pointer Constraints::of_tools(const ToolFields& tools, CallForm form) {
  if (!can_require_calls(form)) {
    if (!tools.demanded()) return nullptr;
    tools::refuse_unsupported("tool_choice",
                              "calls of this model's form cannot be required; \"auto\" leaves them to it");
  }
  const ToolChoice choice{form, tools.tools.dump(), tools.name, tools.parallel, !tools.demanded()};
  const std::string key = "tools " + std::to_string(static_cast<int>(form)) +
                          (choice.parallel ? " " : " one ") + (choice.free_text ? "auto " : "") +
                          choice.name + " " + choice.tools;
  return find(key, [&] {
    try {
      std::vector<std::string> loose;
      Pointer made = Constraint::tool_calls(choice, &loose);
      for (const std::string& tool : loose)
        note_("cria: note: arguments of a tool may be any object, as its schema cannot be enforced: " + tool);
      return made;
    } catch (const ConstraintError& error) {
      const std::string path = "tools" + error.place;
      throw RequestError("invalid_schema", path, "\"" + path + "\": " + error.what());
    }
  });
}

Constraints::Pointer Constraints::of(const CompletionRequest& request, CallForm form) {
  const ConstraintFields& wanted = request.constraint;
  if (request.tools.offered()) return of_tools(request.tools, form);
  if (wanted.kind == ConstraintFields::Kind::None) return nullptr;
  return find("text " + std::to_string(static_cast<int>(wanted.kind)) + " " + wanted.text,
              [&] { return tools::compile(wanted); });
}

}  // namespace cria::serve
