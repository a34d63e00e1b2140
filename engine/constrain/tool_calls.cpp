// Answers that are calls of tools, alone or after text.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>

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

bool is_wanted(const ToolChoice& choice, const SchemaJson& tool) {
  return choice.name.empty() || tool.at("function").at("name") == choice.name;
}

bool is_strict(const SchemaJson& function) {
  return function.contains("strict") && function["strict"] == true;
}

using TellLoose = std::function<void(const SchemaJson& function, std::string_view why)>;

/// The parameters of the wanted tools, as objects' schemas. They are checked with the steps of one
/// budget: each of several gets an equal share of a quarter, enough for most; what is left goes to
/// those that need more, in their order.
class ParametersSchemas {
 public:
  /// By tool.
  using List = std::vector<std::optional<SchemaJson>>;

  ParametersSchemas(const SchemaJson& tools, const TellLoose& tell)
      : tools_(tools), tell_(tell), schemas_(tools.size()) {}

  /// Nothing where they are not supported and need not be. Throws where they are no schema.
  List read(std::span<const std::size_t> wanted) {
    const std::size_t share = wanted.size() < 2 ? steps_left_ : steps_left_ / 4 / wanted.size();
    std::vector<std::pair<std::size_t, ConstraintError>> need_more;
    for (const std::size_t tool : wanted) {
      const std::optional<Refusal> refusal = check(tool, share);
      if (refusal && refusal->needs_more)
        need_more.emplace_back(tool, refusal->error);
      else if (refusal)
        refuse(tool, refusal->error);
    }
    for (const auto& [tool, error] : need_more) {
      const std::optional<Refusal> again =
          steps_left_ > share ? check(tool, steps_left_) : Refusal{error, true};
      if (again) refuse(tool, again->error);
    }
    return std::move(schemas_);
  }

 private:
  struct Refusal {
    ConstraintError error;
    bool needs_more;  // steps
  };

  std::optional<Refusal> check(std::size_t tool, std::size_t steps) {
    const SchemaJson& function = tools_[tool].at("function");
    SchemaJson schema = function.value("parameters", SchemaJson::object());
    if (schema.is_null()) schema = SchemaJson::object();
    if (!schema.contains("type") ||
        (schema["type"].is_array() && std::ranges::count(schema["type"], "object") != 0))
      schema["type"] = "object";  // of several types: the one that arguments have
    if (schema["type"] != "object")
      return Refusal{
          {"\"type\": expected \"object\", got " + schema["type"].dump().substr(0, 60), "", true},
          false};
    Budget budget(steps);
    std::optional<Refusal> refusal;
    try {
      AutomatonBuilder builder(budget);
      (void)schema_rule(schema.dump(), builder);
      schemas_[tool] = std::move(schema);
    } catch (const ConstraintError& error) {
      refusal = Refusal{error, budget.steps_left() == 0};
    }
    steps_left_ -= steps - budget.steps_left();
    return refusal;
  }

  void refuse(std::size_t tool, const ConstraintError& error) {
    const SchemaJson& function = tools_[tool].at("function");
    if (is_strict(function) || error.malformed)
      throw ConstraintError(error.what(), "[" + std::to_string(tool) + "].function.parameters");
    tell_(function, error.what());
  }

  const SchemaJson& tools_;
  const TellLoose& tell_;
  List schemas_;
  std::size_t steps_left_ = Budget::kSteps;
};

struct CalledTool {
  std::string name;  // as it stands between quotes
  RuleId arguments;
};

/// One builder's rules of the arguments of all tools.
class CallRules {
 public:
  explicit CallRules(AutomatonBuilder& builder) : builder_(builder), json_(builder) {}

  void add_tool(const SchemaJson& function, std::optional<SchemaJson> schema) {
    const std::string quoted = SchemaJson(function.at("name")).dump();
    const RuleId rule = builder_.rule();
    tools_.push_back({quoted.substr(1, quoted.size() - 2), rule});
    const NodeId start = builder_.start(rule), end = builder_.end(rule);
    if (!schema) return json_.any_object(start, end);
    schemas_.push_back(*std::move(schema));
    forms_.emplace_back(schemas_.back(), builder_.budget());
    rules_.emplace_back(forms_.back(), json_);
    rules_.back().value(start, forms_.back().root(), end);
    rules_.back().complete();
  }
  [[nodiscard]] const std::vector<CalledTool>& tools() const { return tools_; }

 private:
  AutomatonBuilder& builder_;
  JsonText json_;
  std::vector<CalledTool> tools_;
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

/// Texts that an answer may begin with, as nodes with a way for every byte: what is none of them
/// leads elsewhere.
class TextPaths {
 public:
  using Table = std::array<NodeId, 256>;
  TextPaths(AutomatonBuilder& builder, NodeId elsewhere)
      : builder_(builder), elsewhere_(elsewhere) {}

  /// A text from a node on; to: where it ends, no node of these. Returns where.
  NodeId path(NodeId from, std::string_view text, std::optional<NodeId> to = std::nullopt) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      NodeId& next = table(from)[static_cast<unsigned char>(text[i])];
      const bool last = i + 1 == text.size();
      if (last && to) return next = *to;
      if (next == elsewhere_) next = builder_.node();
      from = next;
      (void)table(from);
    }
    return from;
  }
  void blanks(NodeId node) {
    for (const char c : std::string_view(" \t\r\n"))
      table(node)[static_cast<unsigned char>(c)] = node;
  }
  [[nodiscard]] const std::map<NodeId, Table>& nodes() const { return tables_; }

 private:
  Table& table(NodeId node) {
    const auto [at, is_new] = tables_.try_emplace(node);
    if (is_new) at->second.fill(elsewhere_);
    return at->second;
  }

  AutomatonBuilder& builder_;
  const NodeId elsewhere_;
  std::map<NodeId, Table> tables_;
};

/// What calls of a form, or text with such calls, may be.
class CallsBuilder {
 public:
  /// free: the blanks next to markers may be left out, as some models do.
  CallsBuilder(AutomatonBuilder& builder, const CallsText& text,
               const std::vector<CalledTool>& tools, bool several, bool free)
      : b_(builder), text_(text), tools_(tools), several_(several), body_(builder.rule()) {
    const NodeId object = b_.node(), said = b_.node();
    b_.text(b_.start(body_), text_.lead, object);
    if (free) b_.silent(b_.start(body_), object);
    for (const CalledTool& tool : tools_) {
      const NodeId named = b_.node();
      b_.text(object, "{\"name\": \"" + tool.name + "\"", named);
      arguments(named, tool, said);
    }
    const NodeId closing = b_.node();
    b_.text(said, text_.tail, closing);
    if (free) b_.silent(said, closing);
    marker_or_nothing(b_, closing, text_.close, b_.end(body_));
  }

  RuleId only_calls() {
    const RuleId root = b_.rule();
    const NodeId opened = b_.node();
    marker_or_nothing(b_, b_.start(root), text_.all_open, opened);
    list(opened, b_.end(root));
    return root;
  }

  RuleId text_with_calls() {
    const RuleId root = b_.rule();
    if (text_.form == CallForm::Llama) {
      llama_answer(b_.start(root), b_.end(root));
      return root;
    }
    const NodeId text = b_.node(), marked = b_.node(), called = b_.node();
    b_.silent(b_.start(root), text);
    b_.silent(called, several_ ? text : b_.end(root));
    if (text_.form == CallForm::Mistral) {
      free_text(text, text_.all_open, marked, b_.end(root));
      list(marked, called);
      for (const CalledTool& tool : tools_) {  // as newer models write them
        const NodeId named = b_.node(), arguments = b_.node();
        b_.text(marked, tool.name, named);
        b_.marker(named, "[ARGS]", arguments);
        b_.call(arguments, tool.arguments, called);
      }
    } else {
      free_text(text, text_.open, marked, b_.end(root));
      b_.call(marked, body_, called);
    }
    return root;
  }

 private:
  /// What follows a tool's name, up to the end of the object.
  void arguments(NodeId named, const CalledTool& tool, NodeId to) {
    const NodeId begin = b_.node(), end = b_.node();
    b_.text(named, std::string(", \"") + text_.key + "\": ", begin);
    b_.call(begin, tool.arguments, end);
    b_.text(end, "}", to);
  }

  void list(NodeId from, NodeId to) {
    const NodeId first = b_.node(), marked = b_.node(), last = b_.node();
    b_.text(from, text_.list_open, first);
    marker_or_nothing(b_, first, text_.open, marked);
    b_.call(marked, body_, last);
    if (several_) b_.text(last, text_.between, first);
    b_.text(last, text_.list_close, to);
  }

  /// Control tokens other than this say nothing: the text goes on from the same place.
  void stay_with_controls(NodeId node, Symbol but) {
    if (but > 256) b_.edge(node, 256, static_cast<Symbol>(but - 1), node);
    b_.edge(node, static_cast<Symbol>(but + 1), Automaton::kOtherControl, node);
  }

  /// Edges for all bytes; `next` says where each leads.
  template <class Next>
  void all_bytes(NodeId from, Next&& next) {
    for (int low = 0; low < 256;) {
      int high = low;
      while (high + 1 < 256 && next(high + 1) == next(low)) ++high;
      b_.edge(from, static_cast<Symbol>(low), static_cast<Symbol>(high), next(low));
      low = high + 1;
    }
  }

  /// Any text, whole everywhere, until the marker (or its control token) leads on: a search for it
  /// by the lengths of its beginnings that the text ends with.
  void free_text(NodeId from, const std::string& marker, NodeId marked, NodeId end) {
    const std::size_t n = marker.size();
    std::vector<NodeId> nodes{from};
    while (nodes.size() < n) nodes.push_back(b_.node());
    nodes.push_back(marked);
    for (std::size_t k = 0; k < n; ++k) {
      b_.silent(nodes[k], end);
      stay_with_controls(nodes[k], b_.control(nodes[k], marker, marked));
      all_bytes(nodes[k], [&](int byte) {
        const std::string seen = marker.substr(0, k) + static_cast<char>(byte);
        std::size_t length = seen.size();
        while (!seen.ends_with(marker.substr(0, length))) --length;
        return nodes[length];
      });
    }
  }

  /// The whole answer is calls where it begins with {"name": and a tool's name; else it is any
  /// text.
  void llama_answer(NodeId root, NodeId end) {
    constexpr const char* kTag = "<|python_tag|>";  // says nothing
    const NodeId start = b_.node(), other = b_.node(), called = b_.node();
    TextPaths paths(b_, other);
    paths.blanks(start);
    paths.path(start, kTag, start);
    NodeId at = paths.path(start, "{");
    for (const char* const text : {"\"name\"", ":", "\""}) {
      paths.blanks(at);
      at = paths.path(at, text);
    }
    for (const CalledTool& tool : tools_) {
      const NodeId named = b_.node();
      paths.path(at, tool.name + "\"", named);
      arguments(named, tool, called);
    }
    b_.silent(root, start);
    for (const auto& [node, next] : paths.nodes()) {
      b_.silent(node, end);
      stay_with_controls(node, b_.control(node, kTag, node == start ? start : other));
      all_bytes(node, [&table = next](int byte) { return table[static_cast<std::size_t>(byte)]; });
    }
    b_.edge(other, 0, Automaton::kOtherControl, other);
    b_.silent(other, end);
    b_.silent(called, end);
    if (!several_) return;
    const NodeId again = b_.node();
    b_.text(called, text_.between, again);
    b_.call(again, body_, called);
  }

  AutomatonBuilder& b_;
  const CallsText& text_;
  const std::vector<CalledTool>& tools_;
  const bool several_;
  const RuleId body_;  // a call, behind the marker that opens it
};

std::shared_ptr<const Constraint> compile_calls(const CallsText& text, const ToolChoice& choice,
                                                const SchemaJson& tools,
                                                const ParametersSchemas::List& schemas) {
  using Calls = Constraint::State::Calls;
  Budget budget;
  AutomatonBuilder builder(budget);
  CallRules rules(builder);
  for (std::size_t i = 0; i < tools.size(); ++i)
    if (is_wanted(choice, tools[i])) rules.add_tool(tools[i].at("function"), schemas[i]);
  CallsBuilder calls(builder, text, rules.tools(), choice.parallel && choice.name.empty(),
                     choice.free_text);
  const RuleId root = choice.free_text ? calls.text_with_calls() : calls.only_calls();
  return make_constraint(builder, root, "tools", choice.free_text ? Calls::AfterText : Calls::Only);
}

}  // namespace

bool can_require_calls(CallForm form) { return calls_text(form) != nullptr; }

std::shared_ptr<const Constraint> Constraint::tool_calls(const ToolChoice& choice,
                                                         std::vector<std::string>* loose) {
  const CallsText* const text = calls_text(choice.form);
  if (text == nullptr) throw ConstraintError("calls of this form cannot be required", "");
  constexpr std::size_t kMaxBytes = 1 << 24;
  const SchemaJson tools = parse_ordered_json(
      choice.tools, "tools", {.bytes = kMaxBytes, .depth = 130, .values = kMaxBytes});
  std::vector<std::size_t> wanted;
  bool strict = false;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    if (!is_wanted(choice, tools[i])) continue;
    wanted.push_back(i);
    strict = strict || is_strict(tools[i].at("function"));
  }
  const TellLoose tell = [loose](const SchemaJson& function, std::string_view why) {
    if (loose != nullptr)
      loose->push_back(function.at("name").get<std::string>() + ": " + std::string(why));
  };
  ParametersSchemas::List schemas = ParametersSchemas(tools, tell).read(wanted);
  try {
    return compile_calls(*text, choice, tools, schemas);
  } catch (const ConstraintError& error) {  // each of them is good, but all together cost too much
    if (strict) throw;
    for (std::size_t i = 0; i < tools.size(); ++i)
      if (std::exchange(schemas[i], std::nullopt)) tell(tools[i].at("function"), error.what());
  }
  return compile_calls(*text, choice, tools, schemas);
}

}  // namespace cria
