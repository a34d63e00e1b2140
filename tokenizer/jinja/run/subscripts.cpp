// What stands behind a dot or in brackets.
#include <algorithm>

#include "model/file/utf8.h"
#include "tokenizer/jinja/builtins/methods.h"
#include "tokenizer/jinja/builtins/operators.h"
#include "tokenizer/jinja/values/unicode.h"

namespace cria::jinja {
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

/// As Python's slice.indices: where to begin, where to end (excluded), how to go on.
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
  for (std::size_t at = 0; at < bytes.size(); at += first_char(bytes.substr(at)).bytes)
    begins.push_back(at);
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
