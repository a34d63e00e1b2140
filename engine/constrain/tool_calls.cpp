// Answers that consist of tool calls, possibly after text.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "engine/constrain/constraint.h"
#include "engine/constrain/json_text.h"
#include "engine/constrain/schema.h"
#include "engine/constrain/token_masks.h"
#include "model/file/json.h"
#include "tokenizer/chat/call_format.h"

namespace cria {
namespace {

/// Markers and text of constrained calls. Calls in a list share one marker in front of it.
struct CallsText {
  explicit CallsText(const CallFormat& format)
      : grammar(format.grammar),
        list(!grammar.list_open.empty()),
        unmarked(format.unmarked),
        named(format.body == CallBody::JsonObject ? format.name_close : ""),
        open(format.open),
        close(unmarked ? "" : format.close) {}

  const CallGrammar& grammar;
  bool list, unmarked;
  std::string named;        // the marker between a name and arguments, if calls may be written so
  std::string open, close;  // markers of each call, or of the list
  [[nodiscard]] std::string call_open() const { return list || unmarked ? "" : open; }
};

const CallFormat* constrained_format(CallForm form) {
  const CallFormat* const format = call_format(form);
  return format == nullptr || format->grammar.arguments_key.empty() ? nullptr : format;
}

bool is_wanted(const ToolChoice& choice, const Json& tool) {
  const Json& name = tool.at("function").at("name");
  const bool allowed =
      choice.allowed.empty() || std::ranges::count(choice.allowed, name.get<std::string>()) != 0;
  return allowed && (choice.name.empty() || name == choice.name);
}

bool is_strict(const Json& function) {
  return function.contains("strict") && function["strict"] == true;
}

using TellLoose = std::function<void(const Json& function, std::string_view why)>;

/// Reads the parameters of the wanted tools as schemas of objects. One budget of steps checks all:
/// each of several tools gets an equal share of a quarter, which is enough for most. Tools that
/// need more get the rest, in order.
class ParametersSchemas {
 public:
  /// One entry per tool.
  using List = std::vector<std::optional<Json>>;

  ParametersSchemas(const Json& tools, const TellLoose& tell)
      : tools_(tools), tell_(tell), schemas_(tools.size()) {}

  /// Returns nullopt for parameters that are not supported and not strict. Throws ConstraintError
  /// for an invalid schema.
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
    const Json& function = tools_[tool].at("function");
    Json schema = function.value("parameters", Json::object());
    if (schema.is_null()) schema = Json::object();
    if (!schema.contains("type") ||
        (schema["type"].is_array() && std::ranges::count(schema["type"], "object") != 0))
      schema["type"] = "object";  // with several types, arguments have this one
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
    const Json& function = tools_[tool].at("function");
    if (is_strict(function) || error.malformed)
      throw ConstraintError(error.what(), "[" + std::to_string(tool) + "].function.parameters");
    tell_(function, error.what());
  }

  const Json& tools_;
  const TellLoose& tell_;
  List schemas_;
  std::size_t steps_left_ = Budget::kSteps;
};

struct CalledTool {
  std::string name;  // as written between quotes
  RuleId arguments;
};

/// Adds the rules of the arguments of all tools to one builder.
class CallRules {
 public:
  explicit CallRules(AutomatonBuilder& builder) : builder_(builder), json_(builder) {}

  void add_tool(const Json& function, std::optional<Json> schema) {
    const std::string quoted = Json(function.at("name")).dump();
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
  std::deque<Json> schemas_;
  std::deque<SchemaForms> forms_;
  std::deque<SchemaRules> rules_;
};

void marker_or_nothing(AutomatonBuilder& builder, NodeId from, const std::string& text, NodeId to) {
  if (text.empty())
    builder.silent(from, to);
  else
    builder.marker(from, text, to);
}

/// Builds a deterministic tree of texts that an answer may begin with: any other byte leads to
/// `elsewhere`.
class TextPaths {
 public:
  using Table = std::array<NodeId, 256>;
  TextPaths(AutomatonBuilder& builder, NodeId elsewhere)
      : builder_(builder), elsewhere_(elsewhere) {}

  /// Adds a text from a node on, which ends in `to` if given. Returns the node where it ends.
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

/// Builds the automaton of calls in a format, or of text with such calls.
class CallsBuilder {
 public:
  /// free: white space next to markers is optional, as some models leave it out.
  CallsBuilder(AutomatonBuilder& builder, const CallsText& text,
               const std::vector<CalledTool>& tools, bool several, bool free)
      : b_(builder), text_(text), tools_(tools), several_(several), body_(builder.rule()) {
    const NodeId object = b_.node(), written = b_.node();
    b_.text(b_.start(body_), text_.grammar.lead, object);
    if (free) b_.silent(b_.start(body_), object);
    for (const CalledTool& tool : tools_) {
      const NodeId named = b_.node();
      b_.text(object, "{\"name\": \"" + tool.name + "\"", named);
      arguments(named, tool, written);
    }
    const NodeId closing = b_.node();
    b_.text(written, text_.grammar.tail, closing);
    if (free) b_.silent(written, closing);
    marker_or_nothing(b_, closing, text_.list ? "" : text_.close, b_.end(body_));
  }

  RuleId only_calls() {
    const RuleId root = b_.rule();
    const NodeId opened = b_.node();
    marker_or_nothing(b_, b_.start(root), text_.list ? text_.open : "", opened);
    list(opened, b_.end(root));
    return root;
  }

  RuleId text_with_calls() {
    const RuleId root = b_.rule();
    if (text_.unmarked) {
      llama_answer(b_.start(root), b_.end(root));
      return root;
    }
    const NodeId text = b_.node(), marked = b_.node(), called = b_.node();
    b_.silent(b_.start(root), text);
    b_.silent(called, several_ ? text : b_.end(root));
    b_.text_until(text, text_.open, marked, b_.end(root));
    if (text_.list) {
      list(marked, called);
      for (const CalledTool& tool : tools_) {  // newer models write NAME[ARGS]{…}
        if (text_.named.empty()) break;
        const NodeId named = b_.node(), arguments = b_.node();
        b_.text(marked, tool.name, named);
        b_.marker(named, text_.named, arguments);
        b_.call(arguments, tool.arguments, called);
      }
    } else {
      b_.call(marked, body_, called);
    }
    return root;
  }

 private:
  /// Adds what follows the name of a tool, up to the end of the object.
  void arguments(NodeId named, const CalledTool& tool, NodeId to) {
    const NodeId begin = b_.node(), end = b_.node();
    b_.text(named, ", \"" + std::string(text_.grammar.arguments_key) + "\": ", begin);
    b_.call(begin, tool.arguments, end);
    b_.text(end, "}", to);
  }

  void list(NodeId from, NodeId to) {
    const NodeId first = b_.node(), marked = b_.node(), last = b_.node();
    b_.text(from, text_.grammar.list_open, first);
    marker_or_nothing(b_, first, text_.call_open(), marked);
    b_.call(marked, body_, last);
    if (several_) b_.text(last, text_.grammar.between, first);
    b_.text(last, text_.grammar.list_close, to);
  }

  /// The whole answer is calls if it begins with {"name": and the name of a tool, else any text.
  void llama_answer(NodeId root, NodeId end) {
    constexpr const char* kTag = "<|python_tag|>";  // has no meaning
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
      b_.other_controls(node, b_.control(node, kTag, node == start ? start : other), node);
      b_.all_bytes(node,
                   [&table = next](int byte) { return table[static_cast<std::size_t>(byte)]; });
    }
    b_.edge(other, 0, Automaton::kOtherControl, other);
    b_.silent(other, end);
    b_.silent(called, end);
    if (!several_) return;
    const NodeId again = b_.node();
    b_.text(called, text_.grammar.between, again);
    b_.call(again, body_, called);
  }

  AutomatonBuilder& b_;
  const CallsText& text_;
  const std::vector<CalledTool>& tools_;
  const bool several_;
  const RuleId body_;  // a call, after the marker that opens it
};

/// Adds an answer that is calls, or JSON in a format.
RuleId calls_or_format(AutomatonBuilder& builder, RuleId calls, const std::string& format) {
  const RuleId root = builder.rule();
  const NodeId start = builder.start(root), end = builder.end(root);
  builder.call(start, calls, end);
  if (format.empty())
    JsonText(builder).any_object(start, end);
  else
    builder.call(start, schema_rule(format, builder), end);
  return root;
}

std::shared_ptr<const Constraint> compile_calls(const CallsText& text, const ToolChoice& choice,
                                                const Json& tools,
                                                const ParametersSchemas::List& schemas) {
  using Calls = Constraint::State::Calls;
  Budget budget;
  AutomatonBuilder builder(budget);
  CallRules rules(builder);
  for (std::size_t i = 0; i < tools.size(); ++i)
    if (is_wanted(choice, tools[i])) rules.add_tool(tools[i].at("function"), schemas[i]);
  CallsBuilder calls(builder, text, rules.tools(), choice.parallel && choice.name.empty(),
                     choice.free_text);
  if (choice.format)
    return make_constraint(builder, calls_or_format(builder, calls.only_calls(), *choice.format),
                           "tools", Calls::OrFormat);
  const RuleId root = choice.free_text ? calls.text_with_calls() : calls.only_calls();
  return make_constraint(builder, root, "tools", choice.free_text ? Calls::AfterText : Calls::Only);
}

}  // namespace

bool can_require_calls(CallForm form) { return constrained_format(form) != nullptr; }

std::shared_ptr<const Constraint> Constraint::tool_calls(const ToolChoice& choice,
                                                         std::vector<std::string>* loose) {
  const CallFormat* const format = constrained_format(choice.form);
  if (format == nullptr) throw ConstraintError("calls of this format cannot be required", "");
  const CallsText text(*format);
  constexpr std::size_t kMaxBytes = 1 << 24;
  const Json tools =
      parse_json(choice.tools, "tools", {.bytes = kMaxBytes, .depth = 130, .values = kMaxBytes});
  std::vector<std::size_t> wanted;
  bool strict = false;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    if (!is_wanted(choice, tools[i])) continue;
    wanted.push_back(i);
    strict = strict || is_strict(tools[i].at("function"));
  }
  const TellLoose tell = [loose](const Json& function, std::string_view why) {
    if (loose != nullptr)
      loose->push_back(function.at("name").get<std::string>() + ": " + std::string(why));
  };
  ParametersSchemas::List schemas = ParametersSchemas(tools, tell).read(wanted);
  try {
    return compile_calls(text, choice, tools, schemas);
  } catch (const ConstraintError& error) {  // each is supported, but all together cost too much
    if (strict) throw;
    for (std::size_t i = 0; i < tools.size(); ++i)
      if (std::exchange(schemas[i], std::nullopt)) tell(tools[i].at("function"), error.what());
  }
  return compile_calls(text, choice, tools, schemas);
}

}  // namespace cria
