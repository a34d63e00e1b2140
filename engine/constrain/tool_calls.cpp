// Answers that are calls of tools and nothing else.
#include <algorithm>
#include <deque>

#include "engine/constrain/constraint.h"
#include "engine/constrain/constraint_state.h"
#include "engine/constrain/json_text.h"
#include "engine/constrain/schema_rules.h"
#include "model/file/json.h"

namespace cria {
namespace {

/// How calls are written around {"name": NAME, ARGUMENTS_KEY: {…}}.
struct CallsText {
  CallForm form;
  const char* all_open;  // a marker, "" for none
  const char* open;      // of each call: a marker, then
  const char* lead;      // text
  const char* key;
  const char* tail;   // text, then
  const char* close;  // a marker
  const char* between;
  const char* list_open;
  const char* list_close;
};

constexpr CallsText kCallsTexts[] = {
    {CallForm::Hermes, "", "<tool_call>", "\n", "arguments", "\n", "</tool_call>", "\n", "", ""},
    {CallForm::Mistral, "[TOOL_CALLS]", "", "", "arguments", "", "", ", ", "[", "]"},
    {CallForm::Llama, "", "", "", "parameters", "", "", "; ", "", ""},
};

const CallsText* calls_text(CallForm form) {
  const auto* const found = std::ranges::find(kCallsTexts, form, &CallsText::form);
  return found == std::end(kCallsTexts) ? nullptr : found;
}

/// The parameters of a tool, as an object's schema; nothing where they are not supported and need not be.
std::optional<SchemaJson> parameters_schema(const SchemaJson& function, const std::string& place) {
  SchemaJson schema = function.value("parameters", SchemaJson::object());
  if (schema.is_null()) schema = SchemaJson::object();
  if (!schema.contains("type")) schema["type"] = "object";
  if (schema["type"] != "object")
    throw ConstraintError("\"type\": expected \"object\", got " + schema["type"].dump().substr(0, 60), place);
  try {
    (void)Constraint::json_schema(schema.dump());
  } catch (const ConstraintError& error) {
    if (function.contains("strict") && function["strict"] == true) throw ConstraintError(error.what(), place);
    return std::nullopt;
  }
  return schema;
}

/// One builder's rules of all tools.
class CallRules {
 public:
  CallRules(AutomatonBuilder& builder, const CallsText& text)
      : builder_(builder), json_(builder), text_(text) {}

  void add_tool(NodeId from, const SchemaJson& function, const std::string& place, NodeId to) {
    const NodeId arguments = builder_.node(), end = builder_.node();
    const std::string name = SchemaJson(function.at("name")).dump();
    builder_.text(from, "{\"name\": " + name + ", \"" + text_.key + "\": ", arguments);
    builder_.text(end, "}", to);
    std::optional<SchemaJson> schema = parameters_schema(function, place);
    if (!schema) return json_.any_object(arguments, end);
    schemas_.push_back(*std::move(schema));
    forms_.emplace_back(schemas_.back(), builder_.budget());
    rules_.emplace_back(forms_.back(), json_);
    rules_.back().value(arguments, forms_.back().root(), end);
    rules_.back().complete();
  }

 private:
  AutomatonBuilder& builder_;
  JsonText json_;
  const CallsText& text_;
  std::deque<SchemaJson> schemas_;
  std::deque<SchemaForms> forms_;
  std::deque<SchemaRules> rules_;
};

void marker_or_nothing(AutomatonBuilder& builder, NodeId from, const char* text, NodeId to) {
  if (*text == '\0')
    builder.silent(from, to);
  else
    builder.marker(from, text, to);
}

}  // namespace

bool can_require_calls(CallForm form) { return calls_text(form) != nullptr; }

std::shared_ptr<const Constraint> Constraint::tool_calls(const ToolChoice& choice) {
  const CallsText* const text = calls_text(choice.form);
  if (text == nullptr) throw ConstraintError("calls of this form cannot be required", "");
  const SchemaJson tools = parse_ordered_json(choice.tools, "tools", {.bytes = 1 << 24, .depth = 130});
  Budget budget;
  AutomatonBuilder builder(budget);
  CallRules rules(builder, *text);
  const RuleId root = builder.rule(), call = builder.rule();
  const NodeId opened = builder.node(), first = builder.node(), last = builder.node();
  marker_or_nothing(builder, builder.start(root), text->all_open, opened);
  builder.text(opened, text->list_open, first);
  builder.call(first, call, last);
  if (choice.parallel && choice.name.empty()) builder.text(last, text->between, first);
  builder.text(last, text->list_close, builder.end(root));

  const NodeId marked = builder.node(), object = builder.node(), said = builder.node(),
               closing = builder.node();
  marker_or_nothing(builder, builder.start(call), text->open, marked);
  builder.text(marked, text->lead, object);
  builder.text(said, text->tail, closing);
  marker_or_nothing(builder, closing, text->close, builder.end(call));
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const SchemaJson& function = tools[i].at("function");
    if (choice.name.empty() || function.at("name") == choice.name)
      rules.add_tool(object, function, "[" + std::to_string(i) + "].function.parameters", said);
  }
  return make_constraint(builder, root, "tools", true);
}

}  // namespace cria
