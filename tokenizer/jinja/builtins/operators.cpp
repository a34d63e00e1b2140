#include "tokenizer/jinja/builtins/builtins.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tokenizer/jinja/values/text.h"

namespace cria::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void unsupported(BinaryOp op, const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  throw Failure(std::string("unsupported operand type(s) for ") +
                kSymbols[static_cast<std::size_t>(op)] + ": '" + a.type_name() + "' and '" +
                b.type_name() + "'");
}

[[noreturn]] void too_large() { throw Failure("an integer is too large: more than 64 bits"); }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0) throw Failure("integer division or modulo by zero");
  if (b == -1) {
    if (a == std::numeric_limits<std::int64_t>::min()) too_large();
    return -a;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::int64_t modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) throw Failure("integer division or modulo by zero");
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double modulo(double a, double b) {
  if (b == 0) throw Failure("float modulo by zero");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

/// Divides like Python: subtracts fmod's remainder first, so that the quotient is almost a whole
/// number.
double floor_divide(double a, double b) {
  const double rest = std::fmod(a, b);
  const double quotient = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0) ? 1 : 0);
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw Failure("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  std::int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) too_large();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) too_large();
  }
  return result;
}

Value integer_arithmetic(BinaryOp op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case BinaryOp::Add:
      if (__builtin_add_overflow(a, b, &result)) too_large();
      return result;
    case BinaryOp::Subtract:
      if (__builtin_sub_overflow(a, b, &result)) too_large();
      return result;
    case BinaryOp::Multiply:
      if (__builtin_mul_overflow(a, b, &result)) too_large();
      return result;
    case BinaryOp::Divide:
      if (b == 0) throw Failure("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    case BinaryOp::FloorDivide:
      return floor_divide(a, b);
    case BinaryOp::Modulo:
      return modulo(a, b);
    case BinaryOp::Power:
      return power(a, b);
  }
  return {};
}

Value real_arithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add:
      return a + b;
    case BinaryOp::Subtract:
      return a - b;
    case BinaryOp::Multiply:
      return a * b;
    case BinaryOp::Divide:
      if (b == 0) throw Failure("float division by zero");
      return a / b;
    case BinaryOp::FloorDivide:
      if (b == 0) throw Failure("float floor division by zero");
      return floor_divide(a, b);
    case BinaryOp::Modulo:
      return modulo(a, b);
    case BinaryOp::Power: {
      if (a == 0 && b < 0) throw Failure("0.0 cannot be raised to a negative power");
      const double result = std::pow(a, b);
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b))
        throw Failure("complex numbers are not supported");
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
        throw Failure("a number is out of range");
      return result;
    }
  }
  return {};
}

Value repeat(Context& context, const Value& sequence, std::int64_t times) {
  const auto n = static_cast<std::uint64_t>(std::max<std::int64_t>(times, 0));
  const auto all = [n](std::size_t size) {
    std::uint64_t total = 0;
    if (__builtin_mul_overflow(n, size, &total)) throw Failure("a value is too large");
    return total;
  };
  if (const Text* text = sequence.text()) {
    context.budget.step(text->empty() ? 0 : n);
    context.budget.take(all(text->size()));
    Text out;
    for (std::uint64_t i = 0; i < n && !text->empty(); ++i) out.append(*text);
    out.set_markup(text->is_markup());
    return out;
  }
  const List& list = *sequence.list();
  context.budget.take_values(all(list.items.size()));
  std::vector<Value> out;
  for (std::uint64_t i = 0; i < n && !list.items.empty(); ++i)
    out.insert(out.end(), list.items.begin(), list.items.end());
  return List(std::move(out), list.kind);
}

bool is_repeatable(const Value& value) {
  return value.text() != nullptr ||
         (value.list() != nullptr && value.list()->kind <= List::Kind::Tuple);
}

Value join_sequences(Context& context, const Value& a, const Value& b) {
  if (const Text* left = a.text(), *right = b.text(); left != nullptr && right != nullptr) {
    const auto out = std::make_shared<LentText>(context.budget);
    const bool markup = left->is_markup() || right->is_markup();
    for (const Text* const text : {left, right}) {
      if (markup)
        out->append(context.escaped(*text));
      else
        out->append(*text);
    }
    out->text.set_markup(markup);
    return LentText::value(out);
  }
  const List *left = a.list(), *right = b.list();
  if (left == nullptr || right == nullptr || left->kind != right->kind ||
      left->kind > List::Kind::Tuple) {
    if (a.text() != nullptr && !b.is_undefined())
      throw Failure("can only concatenate str (not \"" + b.type_name() + "\") to str");
    unsupported(BinaryOp::Add, a, b);
  }
  context.budget.take_values(left->items.size() + right->items.size());
  std::vector<Value> out = left->items;
  out.insert(out.end(), right->items.begin(), right->items.end());
  return List(std::move(out), left->kind);
}

bool equal_lists(Context& context, const List& a, const List& b) {
  if (a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(context, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool equal_dicts(Context& context, const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const auto& [key, value] : a.entries()) {
    context.budget.read(key.extent().weight);
    const Value* other = b.find(key);
    if (other == nullptr || !equal(context, value, *other)) return false;
  }
  return true;
}

bool same_kind(const List& a, const List& b) { return a.kind == b.kind; }

}  // namespace

Value arithmetic(Context& context, BinaryOp op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (!a.is_float() && !b.is_float()) return integer_arithmetic(op, *a.integer(), *b.integer());
    return real_arithmetic(op, *a.real(), *b.real());
  }
  if (op == BinaryOp::Add) {
    require_defined(a);
    return join_sequences(context, a, b);
  }
  if (op == BinaryOp::Multiply) {
    if (is_repeatable(a) && b.integer()) return repeat(context, a, *b.integer());
    if (is_repeatable(b) && a.integer()) return repeat(context, b, *a.integer());
  }
  if (op == BinaryOp::Modulo && a.text() != nullptr) return percent_format(context, *a.text(), b);
  unsupported(op, a, b);
}

Value negative(const Value& a) {
  require_defined(a);
  if (const auto i = a.integer()) return integer_arithmetic(BinaryOp::Subtract, 0, *i);
  if (const auto d = a.real()) return -*d;
  throw Failure("bad operand type for unary -: '" + a.type_name() + "'");
}

Value positive(const Value& a) {
  require_defined(a);
  if (const auto i = a.integer()) return *i;
  if (a.is_float()) return a;
  throw Failure("bad operand type for unary +: '" + a.type_name() + "'");
}

bool equal(Context& context, const Value& a, const Value& b) {
  context.budget.step();
  if (a.is_number() && b.is_number()) {
    if (!a.is_float() && !b.is_float()) return *a.integer() == *b.integer();
    return *a.real() == *b.real();
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    if (a.text()->size() != b.text()->size()) return false;
    context.budget.read(a.text()->size());
    return a.text()->bytes() == b.text()->bytes();
  }
  if (a.list() != nullptr && b.list() != nullptr)
    return a.list() == b.list() ||
           (same_kind(*a.list(), *b.list()) && equal_lists(context, *a.list(), *b.list()));
  if (a.dict() != nullptr && b.dict() != nullptr)
    return a.dict() == b.dict() || equal_dicts(context, *a.dict(), *b.dict());
  if (a.object() != nullptr || b.object() != nullptr) return a.object() == b.object();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool less(Context& context, const Value& a, const Value& b) {
  context.budget.step();
  if (a.is_number() && b.is_number()) {
    if (!a.is_float() && !b.is_float()) return *a.integer() < *b.integer();
    return *a.real() < *b.real();
  }
  if (a.text() != nullptr && b.text() != nullptr) {
    context.budget.read(std::min(a.text()->size(), b.text()->size()));
    return a.text()->bytes() < b.text()->bytes();  // UTF-8 sorts in the same order
  }
  if (a.list() != nullptr && b.list() != nullptr && same_kind(*a.list(), *b.list()) &&
      a.list()->kind <= List::Kind::Tuple) {
    const auto &x = a.list()->items, &y = b.list()->items;
    for (std::size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!equal(context, x[i], y[i])) return less(context, x[i], y[i]);
    }
    return x.size() < y.size();
  }
  require_defined(a);
  require_defined(b);
  throw Failure("'<' not supported between instances of '" + a.type_name() + "' and '" +
                b.type_name() + "'");
}

bool compare(Context& context, CompareOp op, const Value& a, const Value& b) {
  const auto is_nan = [](const Value& v) { return v.is_float() && std::isnan(*v.real()); };
  switch (op) {
    case CompareOp::Equal:
      return equal(context, a, b);
    case CompareOp::NotEqual:
      return !equal(context, a, b);
    case CompareOp::Less:
      return less(context, a, b);
    case CompareOp::Greater:
      return less(context, b, a);
    case CompareOp::LessEqual:
      return !less(context, b, a) && !is_nan(a) && !is_nan(b);
    case CompareOp::GreaterEqual:
      return !less(context, a, b) && !is_nan(a) && !is_nan(b);
    case CompareOp::In:
      return contains(context, b, a);
    case CompareOp::NotIn:
      return !contains(context, b, a);
  }
  return false;
}

bool contains(Context& context, const Value& haystack, const Value& needle) {
  if (const Text* text = haystack.text()) {
    require_defined(needle);
    if (needle.text() == nullptr)
      throw Failure("'in <string>' requires string as left operand, not " + needle.type_name());
    context.budget.step(text->size() / 64);
    return find(text->bytes(), needle.text()->bytes()) != std::string::npos;
  }
  if (const Dict* dict = haystack.dict()) {
    context.budget.read(needle.extent().weight);
    return dict->find(needle) != nullptr;
  }
  if (haystack.list() == nullptr && !haystack.is_undefined() &&
      haystack.object_as<Generator>() == nullptr)
    throw Failure("argument of type '" + haystack.type_name() + "' is not iterable");
  for (const Value& element : context.elements(haystack)) {
    if (equal(context, element, needle)) return true;
  }
  return false;
}

}  // namespace cria::jinja
