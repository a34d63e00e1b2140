#include "tokenizer/jinja/builtins/methods.h"

#include <algorithm>

#include "tokenizer/jinja/builtins/operators.h"
#include "tokenizer/jinja/builtins/string_methods.h"
#include "tokenizer/jinja/values/holders.h"

namespace cria::jinja {
namespace {

Value list_index(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("index", arguments, {"value", "start", "stop"}, 1);
  const auto& items = self.list()->items;
  const auto n = static_cast<std::int64_t>(items.size());
  const auto clamp = [n](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n);
  };
  for (std::int64_t i = clamp(args.integer(1, 0)), end = clamp(args.integer(2, n)); i < end; ++i) {
    if (equal(context, items[static_cast<std::size_t>(i)], args[0])) return i;
  }
  throw Failure(context.shown(args[0]).bytes() + " is not in list");
}

Value list_count(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("count", arguments, {"value"}, 1);
  std::int64_t n = 0;
  for (const Value& item : self.list()->items) n += equal(context, item, args[0]) ? 1 : 0;
  return n;
}

Value itself(Context&, const Value& self, const Arguments& arguments) {
  const Bound args("copy", arguments, {});
  return self;
}

Value dict_get(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("get", arguments, {"key", "default"}, 1);
  context.budget.read(args[0].extent().weight);
  const Value* found = self.dict()->find(args[0]);
  return found != nullptr ? *found : args.get(1, None{});
}

/// keys(), values() or items().
template <List::Kind kind>
Value dict_view(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("keys, values or items", arguments, {});
  context.budget.take_values(self.dict()->entries().size());
  std::vector<Value> out;
  for (const auto& [key, value] : self.dict()->entries()) {
    if (kind == List::Kind::DictItems)
      out.emplace_back(List({key, value}, List::Kind::Tuple));
    else
      out.push_back(kind == List::Kind::DictKeys ? key : value);
  }
  return List(std::move(out), kind);
}

constexpr Method kListMethods[] = {{"copy", itself}, {"count", list_count}, {"index", list_index}};
constexpr Method kDictMethods[] = {{"copy", itself},
                                   {"get", dict_get},
                                   {"items", dict_view<List::Kind::DictItems>},
                                   {"keys", dict_view<List::Kind::DictKeys>},
                                   {"values", dict_view<List::Kind::DictValues>}};
constexpr std::string_view kListChanges[] = {"append", "clear",  "extend",  "insert",
                                             "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

std::optional<Value> bound(const Value& self, std::string_view name,
                           std::span<const Method> methods,
                           std::span<const std::string_view> changes) {
  const auto found = std::ranges::find(methods, name, &Method::name);
  if (found != methods.end()) {
    forbid_holders({&self, 1});
    return function(std::string(name),
                    [self, run = found->run](Context& context, const Arguments& arguments) {
                      return run(context, self, arguments);
                    });
  }
  if (std::ranges::find(changes, name) == changes.end()) return std::nullopt;
  return Value::undefined("access to attribute '" + std::string(name) + "' of '" +
                          self.type_name() + "' object is unsafe: templates may not change values");
}

}  // namespace

std::optional<Value> method(const Value& value, std::string_view name) {
  if (value.text() != nullptr) return bound(value, name, string_methods(), {});
  if (value.dict() != nullptr) return bound(value, name, kDictMethods, kDictChanges);
  const List* list = value.list();
  if (list == nullptr || !list->indexable()) return std::nullopt;
  const std::span<const Method> methods(kListMethods);
  if (list->kind == List::Kind::List) return bound(value, name, methods, kListChanges);
  return bound(value, name, methods.subspan(1), {});  // tuples and ranges have no copy()
}

Value text_list(Context& context, std::vector<Text> texts) {
  context.budget.take_values(texts.size());
  std::vector<Value> out;
  for (Text& text : texts) {
    context.budget.take(text.size());
    out.emplace_back(std::move(text));
  }
  return List(std::move(out));
}

}  // namespace cria::jinja
