#include "tokenizer/jinja/run/interpreter.h"

#include <algorithm>
#include <utility>

#include "model/plural.h"
#include "tokenizer/jinja/builtins/builtins.h"

namespace cria::jinja {

std::optional<Value> Loop::attribute(std::string_view name) {
  const std::size_t n = items_->size();
  if (name == "index") return Value::from_size(index_ + 1);
  if (name == "index0") return Value::from_size(index_);
  if (name == "revindex") return Value::from_size(n - index_);
  if (name == "revindex0") return Value::from_size(n - index_ - 1);
  if (name == "first") return index_ == 0;
  if (name == "last") return index_ + 1 == n;
  if (name == "length") return Value::from_size(n);
  if (name == "depth") return depth_;
  if (name == "depth0") return depth_ - 1;
  if (name == "previtem")
    return index_ == 0 ? Value::undefined("the first item has no previous one")
                       : items()[index_ - 1];
  if (name == "nextitem")
    return index_ + 1 == n ? Value::undefined("the last item has no next one")
                           : items()[index_ + 1];
  const auto self = std::static_pointer_cast<Loop>(shared_from_this());
  if (name == "cycle")
    return function(
        "cycle", [self](Context&, const Arguments& arguments) { return self->cycle(arguments); });
  if (name == "changed")
    return function("changed", [self](Context& context, const Arguments& arguments) -> Value {
      return self->changed(context, arguments);
    });
  return std::nullopt;
}

Value Loop::cycle(const Arguments& arguments) const {
  if (arguments.positional.empty()) throw Failure("no items for cycling given");
  return arguments.positional[index_ % arguments.positional.size()];
}

bool Loop::changed(Context& context, const Arguments& arguments) {
  const std::string now = context.shown(List(arguments.positional, List::Kind::Tuple)).bytes();
  if (last_ == now) return false;
  last_ = now;
  return true;
}

Value Loop::call(Context&, const Arguments& arguments) {
  const Bound args("loop", arguments, {"iterable"}, 1);
  if (again_ == nullptr) throw Failure("the loop must have the 'recursive' marker to be called");
  return again_(args[0], depth_ + 1);
}

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

// Statements; expressions are in expressions.cpp.

/// A scope of its own while it lives.
class Interpreter::InnerScope {
 public:
  InnerScope(Interpreter& interpreter, const std::shared_ptr<Scope>& outer)
      : interpreter_(interpreter), saved_(interpreter.scope_) {
    interpreter_.scope_ = std::make_shared<Scope>(outer);
  }
  ~InnerScope() { interpreter_.scope_ = std::move(saved_); }
  InnerScope(const InnerScope&) = delete;
  InnerScope& operator=(const InnerScope&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> saved_;
};

/// Collects what is printed while it lives.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter) : interpreter_(interpreter), saved_(interpreter.out_) {
    interpreter_.out_ = &text_;
  }
  ~Capture() { interpreter_.out_ = saved_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Text take() { return std::move(text_); }
  [[nodiscard]] Text* outer() const { return saved_; }

 private:
  Interpreter& interpreter_;
  Text* saved_;
  Text text_;
};

Interpreter::Interpreter(Context& context, const Dict& variables)
    : context_(context), scope_(std::make_shared<Scope>(nullptr)) {
  for (const auto& [name, value] : variables.entries()) scope_->set(name.text()->bytes(), value);
  captured_.push_back(scope_);
  scope_ = std::make_shared<Scope>(scope_);
  captured_.push_back(scope_);
}

Interpreter::~Interpreter() {
  for (const auto& scope : captured_) scope->clear();
  for (const auto& space : context_.namespaces) space->fields.clear();
}

Text Interpreter::render(const Body& body) {
  Capture capture(*this);
  run(body);
  return capture.take();
}

void Interpreter::emit(const Text& text) {
  context_.budget.take(text.size());
  out_->append(text);
}

Interpreter::Flow Interpreter::run(const Body& body) {
  for (const Statement& statement : body) {
    if (const Flow flow = run(statement); flow != Flow::Normal) return flow;
  }
  return Flow::Normal;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  at_ = statement.at;
  const Budget::Level level(context_.budget);
  context_.budget.step();
  return std::visit([&](const auto& node) { return run(node); }, statement.node);
}

Interpreter::Flow Interpreter::run(const Data& data) {
  emit(data.text);
  return Flow::Normal;
}

Interpreter::Flow Interpreter::run(const Print& print) {
  emit(context_.text(eval(print.value)));
  return Flow::Normal;
}

Interpreter::Flow Interpreter::run(const If& block) {
  for (const auto& [test, body] : block.branches) {
    if (test == nullptr || eval(test).truth()) return run(body);
  }
  return Flow::Normal;
}

std::shared_ptr<const std::vector<Value>> Interpreter::filtered(const For& block,
                                                                const Value& over) {
  const auto* const list = std::get_if<std::shared_ptr<const List>>(&over.variant());
  if (list != nullptr && block.filter == nullptr) return {*list, &(*list)->items};
  std::vector<Value> items = context_.elements(over);
  if (block.filter == nullptr) return std::make_shared<const std::vector<Value>>(std::move(items));
  std::vector<Value> kept;
  for (Value& item : items) {
    const InnerScope inner(*this, scope_);
    assign(block.target, item);
    if (eval(block.filter).truth()) kept.push_back(std::move(item));
  }
  return std::make_shared<const std::vector<Value>>(std::move(kept));
}

Interpreter::Flow Interpreter::run(const For& block) {
  return run_for(block, eval(block.items), 1);
}

Interpreter::Flow Interpreter::run_for(const For& block, const Value& over, std::int64_t depth) {
  auto items = filtered(block, over);
  Loop::Again again;
  if (block.recursive) {
    again = [this, &block, outer = scope_](const Value& more, std::int64_t deeper) -> Value {
      const Budget::Level level(context_.budget);
      const InnerScope inner(*this, outer);
      Capture capture(*this);
      run_for(block, more, deeper);
      return capture.take();
    };
  }
  const auto loop = std::make_shared<Loop>(std::move(items), depth, std::move(again));
  bool completed = false;
  for (std::size_t i = 0; i < loop->items().size(); ++i) {
    context_.budget.step(2);  // the element and its scope
    loop->go_to(i);
    const InnerScope inner(*this, scope_);
    scope_->set("loop", std::shared_ptr<Object>(loop));
    assign(block.target, loop->items()[i]);
    const Flow flow = run(block.body);
    if (flow == Flow::Break) break;
    completed = completed || flow == Flow::Normal;
  }
  // Jinja2 runs `else` if no iteration reached the end of the body, even if all of them met break
  // or continue.
  if (completed) return Flow::Normal;
  const InnerScope inner(*this, scope_);
  return run(block.otherwise);
}

Interpreter::Flow Interpreter::run(const Set& set) {
  assign(set.target, eval(set.value));
  return Flow::Normal;
}

Interpreter::Flow Interpreter::run(const SetBlock& block) {
  Capture capture(*this);
  {
    const InnerScope inner(*this, scope_);
    if (const Flow flow = run(block.body); flow != Flow::Normal)
      return flow;  // the loop's turn is over
  }
  Text text = capture.take();
  assign(block.target, block.filter == nullptr ? Value(std::move(text))
                                               : filter_text(*block.filter, std::move(text)));
  return Flow::Normal;
}

Interpreter::Flow Interpreter::run(const std::shared_ptr<const MacroDefinition>& macro) {
  scope_->set(macro->name, make_macro(macro));
  return Flow::Normal;
}

Interpreter::Flow Interpreter::run(const CallBlock& block) {
  const auto& node = std::get<Call>(block.call->node);
  const Value callee = eval(node.callee);
  Arguments arguments = evaluate(node.arguments);
  arguments.named.push_back({Text("caller", true), make_macro(block.caller)});
  at_ = block.call->at;
  emit(context_.text(call(callee, arguments)));
  return Flow::Normal;
}

Interpreter::Flow Interpreter::run(const FilterBlock& block) {
  Capture capture(*this);
  {
    const InnerScope inner(*this, scope_);
    if (const Flow flow = run(block.body); flow != Flow::Normal) return flow;
  }
  const Value filtered = filter_text(*block.filter, capture.take());
  out_ = capture.outer();
  emit(context_.text(filtered));
  return Flow::Normal;
}

Interpreter::Flow Interpreter::run(const With& block) {
  std::vector<Value> values;
  for (const auto& [target, value] : block.values) values.push_back(eval(value));
  const InnerScope inner(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(block.values[i].first, values[i]);
  return run(block.body);
}

Interpreter::Flow Interpreter::run(const Group& group) {
  const InnerScope inner(*this, scope_);
  return run(group.body);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.field.empty()) {
    const Value* found = scope_->find(target.name);
    auto* const space = found == nullptr ? nullptr : found->object_as<Namespace>();
    at_ = target.at;
    if (space == nullptr)
      throw Failure("cannot assign attribute on non-namespace object '" + target.name + "'");
    forbid_loops(value);
    space->fields.set(Text(target.field, true), value);
  } else if (target.tuple.empty()) {
    scope_->set(target.name, value);
  } else {
    require_defined(value);
    const std::vector<Value> parts = context_.elements(value);
    if (parts.size() != target.tuple.size())
      throw Failure("cannot unpack: expected " + counted(target.tuple.size(), "value") + ", got " +
                    std::to_string(parts.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) assign(target.tuple[i], parts[i]);
  }
}

/// A macro with the variables around its definition. Lives no longer than the interpreter: those
/// are cleared.
class Interpreter::Macro final : public Object {
 public:
  Macro(Interpreter& interpreter, std::shared_ptr<const MacroDefinition> definition)
      : interpreter_(interpreter), definition_(std::move(definition)), scope_(interpreter.scope_) {}
  [[nodiscard]] std::string type_name() const override { return "Macro"; }
  [[nodiscard]] Text shown() const override {
    return {"<Macro '" + definition_->name + "'>", true};
  }
  [[nodiscard]] bool callable() const override { return true; }
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override {
    if (name == "name") return Text(definition_->name, true);
    if (name == "caller") return definition_->uses_caller;
    if (name == "catch_varargs") return definition_->uses_varargs;
    if (name == "catch_kwargs") return definition_->uses_kwargs;
    return std::nullopt;
  }
  Value call(Context& context, const Arguments& arguments) override {
    const Budget::Level level(context.budget);
    context.budget.step(arguments.named.size() * definition_->parameters.size() / 8);
    const MacroArguments given = match_arguments(*definition_, arguments);
    const InnerScope inner(interpreter_, scope_);
    const std::size_t at = interpreter_.at_;
    for (std::size_t i = 0; i < given.parameters.size(); ++i) {
      const auto& [name, otherwise] = definition_->parameters[i];
      const Value missing = Value::undefined("parameter '" + name + "' was not provided");
      interpreter_.scope_->set(name, given.parameters[i]    ? *given.parameters[i]
                                     : otherwise != nullptr ? interpreter_.eval(otherwise)
                                                            : missing);
    }
    for (const auto& [name, value] : given.special) interpreter_.scope_->set(name, value);
    Capture capture(interpreter_);
    interpreter_.run(definition_->body);
    interpreter_.at_ = at;
    return capture.take();
  }

 private:
  Interpreter& interpreter_;
  std::shared_ptr<const MacroDefinition> definition_;
  std::shared_ptr<Scope> scope_;
};

Value Interpreter::make_macro(std::shared_ptr<const MacroDefinition> definition) {
  context_.budget.take_values(8);
  if (captured_.back() != scope_) captured_.push_back(scope_);
  return std::shared_ptr<Object>(std::make_shared<Macro>(*this, std::move(definition)));
}

}  // namespace cria::jinja
