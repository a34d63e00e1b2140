#include "tools/serve/api/constraints.h"

#include <algorithm>

#include "model/file/json.h"

namespace cria::serve {
namespace {

constexpr std::size_t kMaxConstraints = 64;  // in the cache

ToolChoice tool_choice(const CompletionRequest& request, CallForm form) {
  const ToolFields& tools = request.tools;
  ToolChoice choice{form,
                    exact_json_text(tools.tools),
                    tools.name,
                    tools.parallel,
                    !tools.demanded(),
                    tools.allowed,
                    {}};
  if (!tools.demanded() && request.constraint.json()) choice.format = request.constraint.text;
  return choice;
}

std::string key_of(const ToolChoice& choice) {
  return "tools " + std::to_string(static_cast<int>(choice.form)) +
         (choice.parallel ? " " : " one ") + (choice.free_text ? "auto " : "") + choice.name + " " +
         Json(choice.allowed).dump() + (choice.format ? "or " + *choice.format : "") + " " +
         choice.tools;
}

std::string key_of(const ConstraintFields& wanted) {
  return "text " + std::to_string(static_cast<int>(wanted.kind)) + " " + wanted.text;
}

/// Refuses demands on tool calls whose format cannot be constrained.
void refuse_what_binds(const CompletionRequest& request) {
  const ToolFields& tools = request.tools;
  if (request.constraint.json())
    tools::refuse_unsupported("tools",
                              "they cannot be combined with \"response_format\" in this "
                              "model's tool-call format");
  if (!tools.allowed.empty())
    tools::refuse_unsupported("tool_choice",
                              "tool calls in this model's format cannot be constrained");
  if (tools.demanded())
    tools::refuse_unsupported("tool_choice",
                              "tool calls in this model's format cannot be required; use \"auto\"");
  for (std::size_t i = 0; i < tools.tools.size(); ++i)
    if (tools.tools[i]["function"].value("strict", Json()) == true)
      tools::refuse_unsupported(tools::element_path("tools", i) + ".function.strict",
                                "arguments in this model's tool-call format cannot be constrained");
}

}  // namespace

Constraints::Pointer Constraints::find(const std::string& key,
                                       const std::function<Pointer()>& compile) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      drop_oldest();  // constraints grow in use
      return entries_.front().constraint;
    }
  }
  Pointer made = compile();  // without the lock
  const std::lock_guard lock(mutex_);
  make_room(*made);
  living_.push_back(made);
  entries_.push_front({key, made});
  drop_oldest();
  return made;
}

// Waiting requests hold constraints that the cache may have dropped.
std::size_t Constraints::in_use() {
  std::erase_if(living_, [](const auto& one) { return one.expired(); });
  std::size_t bytes = 0;
  for (const auto& one : living_)
    if (const Pointer held = one.lock()) bytes += held->memory();
  return bytes;
}

// Drops constraints that no request holds, before it refuses one.
void Constraints::make_room(const Constraint& made) {
  const std::size_t bytes = made.memory();
  if (in_use() + bytes <= most_in_use_) return;
  std::erase_if(entries_, [](const Entry& entry) { return entry.constraint.use_count() == 1; });
  if (in_use() + bytes > most_in_use_)
    throw RequestError("queue_full", "",
                       "constraints of other requests exceed the memory limit; try again later",
                       503);
}

// Keeps the most recent, within the limits of number and memory, and at least one.
void Constraints::drop_oldest() {
  std::size_t bytes = 0, kept = 0;
  for (const Entry& entry : entries_) {
    bytes += entry.key.size() + entry.constraint->memory();
    if (kept != 0 && (kept == kMaxConstraints || bytes > most_bytes_)) break;
    ++kept;
  }
  entries_.resize(kept);
}

Constraints::Pointer Constraints::of_tools(const CompletionRequest& request, CallForm form) {
  if (!can_require_calls(form)) {
    refuse_what_binds(request);
    return nullptr;
  }
  const ToolChoice choice = tool_choice(request, form);
  return find(key_of(choice), [&] {
    try {
      std::vector<std::string> loose;
      Pointer made = Constraint::tool_calls(choice, &loose);
      for (const std::string& tool : loose)
        note_(
            "cria: note: the arguments of a tool are not constrained, as its schema is not "
            "supported: " +
            tool);
      return made;
    } catch (const ConstraintError& error) {
      if (choice.format) (void)tools::compile(request.constraint);  // is it this one?
      const std::string path = "tools" + error.place;
      throw RequestError("invalid_schema", path, "\"" + path + "\": " + error.what());
    }
  });
}

Constraints::Pointer Constraints::of(const CompletionRequest& request, CallForm form) {
  const ConstraintFields& wanted = request.constraint;
  if (request.tools.offered()) return of_tools(request, form);
  if (wanted.kind == ConstraintFields::Kind::None) return nullptr;
  return find(key_of(wanted), [&] { return tools::compile(wanted); });
}

bool Constraints::knows(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(entries_, key, &Entry::key) != entries_.end();
}

bool Constraints::has(const CompletionRequest& request, CallForm form) {
  const ConstraintFields& wanted = request.constraint;
  if (request.tools.offered())
    return !can_require_calls(form) || knows(key_of(tool_choice(request, form)));
  return wanted.kind == ConstraintFields::Kind::None || knows(key_of(wanted));
}

}  // namespace cria::serve
