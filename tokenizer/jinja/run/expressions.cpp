// The interpreter's expressions.
#include <algorithm>

#include "tokenizer/jinja/builtins/filters.h"
#include "tokenizer/jinja/builtins/functions.h"
#include "tokenizer/jinja/builtins/operators.h"
#include "tokenizer/jinja/run/interpreter.h"

namespace cria::jinja {

Value Interpreter::eval(const Expr& expr) {
  const Budget::Level level(context_.budget);
  context_.budget.step();
  at_ = expr.at;
  return std::visit([&](const auto& node) { return eval(node, expr.at); }, expr.node);
}

Value Interpreter::eval(const Name& name, std::size_t) {
  if (const Value* found = scope_->find(name.id)) return *found;
  Value global = global_function(name.id);
  return global.is_undefined() ? Value::undefined("'" + name.id + "' is undefined") : global;
}

Value Interpreter::eval(const Sequence& sequence, std::size_t at) {
  std::vector<Value> items;
  context_.budget.take_values(sequence.items.size());
  for (const ExprPtr& item : sequence.items) items.push_back(eval(item));
  at_ = at;
  return List(std::move(items), sequence.tuple ? List::Kind::Tuple : List::Kind::List);
}

Value Interpreter::eval(const DictLiteral& literal, std::size_t at) {
  Dict dict;
  context_.budget.take_values(literal.entries.size());
  for (const auto& [key, value] : literal.entries) {
    const Value its_key = eval(key);
    const Value its_value = eval(value);
    at_ = at;
    context_.budget.read(its_key.extent().weight);
    dict.set(its_key, its_value);
  }
  return dict;
}

Value Interpreter::eval(const Attribute& node, std::size_t at) {
  const Value object = eval(node.object);
  at_ = at;
  return attribute(object, node.name);
}

Value Interpreter::eval(const Subscript& node, std::size_t at) {
  const Value object = eval(node.object);
  const Value index = eval(node.index);
  at_ = at;
  return item(context_, object, index);
}

Value Interpreter::eval(const Slice& node, std::size_t at) {
  const Value object = eval(node.object), start = eval(node.start), stop = eval(node.stop),
              step = eval(node.step);
  at_ = at;
  return slice(context_, object, start, stop, step);
}

Arguments Interpreter::evaluate(const CallArguments& arguments) {
  Arguments out;
  for (const ExprPtr& value : arguments.positional) out.positional.push_back(eval(value));
  for (const auto& [name, value] : arguments.named)
    out.named.push_back({Text(name, true), eval(value)});
  if (arguments.more_positional != nullptr) {
    for (Value& value : context_.elements(eval(arguments.more_positional)))
      out.positional.push_back(std::move(value));
  }
  if (arguments.more_named != nullptr) {
    const Value more = eval(arguments.more_named);
    if (more.dict() == nullptr)
      throw Failure("argument after ** must be a mapping, not " + more.type_name());
    for (const auto& [key, value] : more.dict()->entries()) {
      if (key.text() == nullptr) throw Failure("keywords must be strings");
      context_.budget.take(key.text()->size());
      out.named.push_back({*key.text(), value});
    }
  }
  return out;
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  require_defined(callee);
  Object* object = callee.object();
  if (object == nullptr) throw Failure("'" + callee.type_name() + "' object is not callable");
  return object->call(context_, arguments);
}

Value Interpreter::eval(const Call& node, std::size_t at) {
  const Value callee = eval(node.callee);
  const Arguments arguments = evaluate(node.arguments);
  at_ = at;
  return call(callee, arguments);
}

Value Interpreter::eval(const Filter& node, std::size_t at) {
  const Value input = node.input == nullptr ? *block_text_ : eval(node.input);
  const Arguments arguments = evaluate(node.arguments);
  at_ = at;
  return apply_filter(context_, node.name, input, arguments);
}

Value Interpreter::filter_text(const Expr& filter, Text text) {
  const Value input(std::move(text));
  const Value* const saved = block_text_;
  block_text_ = &input;
  Value result = eval(filter);
  block_text_ = saved;
  return result;
}

Value Interpreter::eval(const Test& node, std::size_t at) {
  const Value input = eval(node.input);
  const Arguments arguments = evaluate(node.arguments);
  at_ = at;
  return apply_test(context_, node.name, input, arguments) != node.negated;
}

Value Interpreter::eval(const Unary& node, std::size_t at) {
  const Value operand = eval(node.operand);
  at_ = at;
  if (node.op == UnaryOp::Not) return !operand.truth();
  return node.op == UnaryOp::Minus ? negative(operand) : positive(operand);
}

Value Interpreter::eval(const Binary& node, std::size_t at) {
  const Value left = eval(node.left);
  const Value right = eval(node.right);
  at_ = at;
  return arithmetic(context_, node.op, left, right);
}

Value Interpreter::eval(const Logic& node, std::size_t) {
  Value left = eval(node.left);
  return left.truth() == node.conjunction ? eval(node.right) : left;
}

Value Interpreter::eval(const Comparison& node, std::size_t at) {
  Value left = eval(node.first);
  for (const auto& [op, operand] : node.rest) {
    Value right = eval(operand);
    at_ = at;
    if (!compare(context_, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::eval(const Concatenation& node, std::size_t) {
  Text out;
  for (const ExprPtr& part : node.parts) {
    const Text text = context_.text(eval(part));
    context_.budget.take(text.size());
    out.append(text);
  }
  return out;
}

Value Interpreter::eval(const Conditional& node, std::size_t) {
  if (eval(node.test).truth()) return eval(node.then);
  if (node.otherwise != nullptr) return eval(node.otherwise);
  return Value::undefined(
      "the inline if-expression evaluated to false and no else section was defined");
}

}  // namespace cria::jinja
