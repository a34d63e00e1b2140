// The interpreter's expressions.
#include <algorithm>

#include "model/file/utf8.h"
#include "tokenizer/jinja/builtins/builtins.h"
#include "tokenizer/jinja/run/interpreter.h"
#include "tokenizer/jinja/values/text.h"

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
  const auto out = std::make_shared<LentText>(context_.budget);
  for (const ExprPtr& part : node.parts) {
    const Value value = eval(part);
    if (const Text* const text = value.text())
      out->append(*text);
    else
      out->append(context_.text(value));
  }
  return LentText::value(out);
}

Value Interpreter::eval(const Conditional& node, std::size_t) {
  if (eval(node.test).truth()) return eval(node.then);
  if (node.otherwise != nullptr) return eval(node.otherwise);
  return Value::undefined(
      "the inline if-expression evaluated to false and no else section was defined");
}

// Attributes, subscripts and slices.

namespace {

/// Python's index, negative ones from the end; nothing if out of range.
std::optional<std::size_t> position(std::int64_t index, std::size_t size) {
  const auto n = static_cast<std::int64_t>(size);
  if (index < 0) index += n;
  if (index < 0 || index >= n) return std::nullopt;
  return static_cast<std::size_t>(index);
}

Value missing(const Value& x, const std::string& what) {
  return Value::undefined("'" + x.type_name() + " object' has no " + what);
}

std::optional<Value> element(const Value& x, std::int64_t index) {
  if (const List* list = x.list(); list != nullptr && list->indexable()) {
    const auto at = position(index, list->items.size());
    return at ? std::optional(list->items[*at]) : std::nullopt;
  }
  if (const Text* text = x.text()) {
    const std::string_view bytes = text->bytes();
    const auto at = position(index, length(bytes));
    if (!at) return std::nullopt;
    const std::size_t begin = offset_of(bytes, *at);
    return text->part(begin, begin + first_char(bytes.substr(begin)).bytes);
  }
  return std::nullopt;
}

std::optional<Value> attribute_or_method(const Value& x, const std::string& name) {
  if (Object* object = x.object()) return object->attribute(name);
  return method(x, name);
}

struct Bounds {
  std::int64_t start, stop, step;
};

std::optional<std::int64_t> bound(const Value& value) {
  if (value.is_undefined() || value.is_none()) return std::nullopt;
  const auto integer = value.integer();
  if (!integer) throw Failure("slice indices must be integers or None, not " + value.type_name());
  return integer;
}

/// Returns begin, end (exclusive) and step like Python's slice.indices.
Bounds bounds(const Value& start, const Value& stop, const Value& step, std::size_t size) {
  const std::int64_t n = static_cast<std::int64_t>(size), stride = bound(step).value_or(1);
  if (stride == 0) throw Failure("slice step cannot be zero");
  const std::int64_t lowest = stride < 0 ? -1 : 0, highest = stride < 0 ? n - 1 : n;
  const auto clamp = [&](std::optional<std::int64_t> i, std::int64_t otherwise) {
    if (!i) return otherwise;
    return std::clamp(*i < 0 ? std::max(*i, -n - 1) + n : *i, lowest, highest);
  };
  return {clamp(bound(start), stride < 0 ? highest : lowest),
          clamp(bound(stop), stride < 0 ? lowest : highest), stride};
}

/// Calls visit(i) for every position of the slice.
template <class Visit>
void walk(const Bounds& b, Visit&& visit) {
  if (b.step > 0) {
    for (std::int64_t i = b.start; i < b.stop; i += std::min(b.step, b.stop - i))
      visit(static_cast<std::size_t>(i));
  } else {
    for (std::int64_t i = b.start; i > b.stop; i += std::max(b.step, b.stop - i))
      visit(static_cast<std::size_t>(i));
  }
}

Text slice_text(const Text& text, const Value& start, const Value& stop, const Value& step) {
  const std::string_view bytes = text.bytes();
  const Bounds b = bounds(start, stop, step, length(bytes));
  if (b.step == 1) {
    const std::size_t begin = offset_of(bytes, static_cast<std::size_t>(b.start));
    const auto n = static_cast<std::size_t>(std::max<std::int64_t>(0, b.stop - b.start));
    return text.part(begin, begin + offset_of(bytes.substr(begin), n));
  }
  std::vector<std::size_t> begins;
  each_char(bytes, [&](const Utf8Char&, std::size_t at) { begins.push_back(at); });
  Text out;
  walk(b, [&](std::size_t i) {
    out.append(text, begins[i], begins[i] + first_char(bytes.substr(begins[i])).bytes);
  });
  return out;
}

}  // namespace

Value item(Context& context, const Value& x, const Value& index) {
  require_defined(x);
  context.budget.read(index.extent().weight);
  if (x.text() != nullptr) context.budget.step(x.text()->size() / 8);
  if (const Dict* dict = x.dict()) {
    if (index.list() == nullptr && index.dict() == nullptr) {
      if (const Value* found = dict->find(index)) return *found;
    } else if (index.list() != nullptr && index.list()->kind == List::Kind::Tuple) {
      if (const Value* found = dict->find(index)) return *found;
    }
  }
  if (const auto integer = index.integer()) {
    if (auto found = element(x, *integer)) return *found;
  }
  if (const Text* name = index.text()) {
    if (auto found = attribute_or_method(x, name->bytes())) return *found;
    context.budget.take(name->size());
    return missing(x, "attribute '" + name->bytes() + "'");
  }
  return missing(
      x, "element " + (index.integer() ? std::to_string(*index.integer()) : index.type_name()));
}

Value attribute(const Value& x, const std::string& name) {
  require_defined(x);
  if (auto found = attribute_or_method(x, name)) return *found;
  if (const Dict* dict = x.dict()) {
    if (const Value* found = dict->find(name)) return *found;
  }
  return missing(x, "attribute '" + name + "'");
}

Value slice(Context& context, const Value& x, const Value& start, const Value& stop,
            const Value& step) {
  require_defined(x);
  if (const Text* text = x.text()) {
    context.budget.take(text->size());
    context.budget.step(text->size() / 8);
    return slice_text(*text, start, stop, step);
  }
  const List* list = x.list();
  if (list == nullptr || !list->indexable())
    throw Failure("'" + x.type_name() + "' object is not subscriptable");
  const Bounds b = bounds(start, stop, step, list->items.size());
  std::size_t n = 0;
  walk(b, [&](std::size_t) { ++n; });
  auto loan = context.budget.lend_values(n);
  std::vector<Value> items;
  items.reserve(n);
  walk(b, [&](std::size_t i) { items.push_back(list->items[i]); });
  List out(std::move(items),
           list->kind == List::Kind::Tuple ? List::Kind::Tuple : List::Kind::List);
  out.loan = std::move(loan);
  return out;
}

}  // namespace cria::jinja
