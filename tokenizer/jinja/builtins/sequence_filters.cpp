// Filters over the elements of a sequence. Jinja's generators work lazily; here the work is done at
// once, so an error is raised even if the result is not used.
#include <algorithm>

#include "tokenizer/jinja/builtins/builtins.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::jinja {
namespace {

Value generator(std::vector<Value> items) {
  forbid_holders(items);
  return std::shared_ptr<Object>(std::make_shared<Generator>(std::move(items)));
}

/// Follows a path such as "function.name" or "0". otherwise replaces an undefined value after each
/// part of the path, unless it is undefined or none.
Value at_path(Context& context, Value value, const Value& path, const Value& otherwise = {}) {
  const auto part_of = [&](const Value& key) {
    const Value found = item(context, value, key);
    const bool replaced = found.is_undefined() && !otherwise.is_undefined() && !otherwise.is_none();
    return replaced ? otherwise : found;
  };
  if (path.integer()) return part_of(path);
  if (path.text() == nullptr)
    throw Failure("an attribute is named by a text or a number, not " + path.type_name());
  context.budget.take(path.text()->size());
  for (const Text& part : split(*path.text(), ".", -1)) {
    context.budget.step();
    const std::string& name = part.bytes();
    const bool number = !name.empty() && name.size() < 9 &&
                        name.find_first_not_of("0123456789") == std::string::npos;
    value = part_of(number ? Value(static_cast<std::int64_t>(std::stol(name))) : Value(part));
  }
  return value;
}

/// For comparisons that ignore case.
Value folded(const Value& value) {
  return value.text() == nullptr ? value : Value(map_runs(*value.text(), lower));
}

/// The sort key of elements.
struct Key {
  Context& context;
  bool case_sensitive;
  Value attribute;       // undefined: the element itself
  Value otherwise = {};  // for elements without it

  [[nodiscard]] Value of(const Value& element) const {
    const Value value =
        attribute.is_undefined() ? element : at_path(context, element, attribute, otherwise);
    if (value.text() != nullptr) context.budget.take(value.text()->size());
    return case_sensitive ? value : folded(value);
  }
};

using Keyed = std::vector<std::pair<Value, Value>>;  // key, element

Keyed keyed(const Key& key, const std::vector<Value>& elements) {
  Keyed out;
  for (const Value& element : elements) out.emplace_back(key.of(element), element);
  return out;
}

void sort_keyed(Context& context, Keyed& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(context, b.first, a.first) : less(context, a.first, b.first);
  });
}

std::vector<Value> elements_of(Keyed items) {
  std::vector<Value> out;
  for (auto& item : items) out.push_back(std::move(item.second));
  return out;
}

Value length_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("length", arguments, {});
  if (input.is_undefined()) return 0;
  if (const Text* text = input.text()) {
    context.budget.read(text->size());
    return Value::from_size(length(text->bytes()));
  }
  if (const List* list = input.list()) return Value::from_size(list->items.size());
  if (const Dict* dict = input.dict()) return Value::from_size(dict->entries().size());
  throw Failure("object of type '" + input.type_name() + "' has no len()");
}

Value first_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("first", arguments, {});
  if (auto* const walked = input.object_as<Generator>();
      walked != nullptr && walked->next < walked->items.size())
    return walked->items[walked->next++];
  const std::vector<Value> all = context.elements(input);
  return all.empty() ? Value::undefined("No first item, sequence was empty.") : all.front();
}

Value last_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("last", arguments, {});
  if (input.object_as<Generator>() != nullptr)
    throw Failure("'generator' object is not reversible");
  const std::vector<Value> all = context.elements(input);
  return all.empty() ? Value::undefined("No last item, sequence was empty.") : all.back();
}

Value list_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("list", arguments, {});
  return List(context.elements(input));
}

Value reverse_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("reverse", arguments, {});
  if (input.text() != nullptr) return slice(context, input, {}, {}, -1);
  std::vector<Value> all = context.elements(input);
  std::reverse(all.begin(), all.end());
  return generator(std::move(all));
}

Value join_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("join", arguments, {"d", "attribute"});
  const Text between = args.has(0) ? context.text(args[0]) : Text();
  Text out;
  bool first = true;
  for (const Value& element : context.elements(input)) {
    const bool whole = !args.has(1) || args[1].is_none();
    const Text text = context.text(whole ? element : at_path(context, element, args[1]));
    context.budget.take(between.size() + text.size());
    if (!first) out.append(between);
    out.append(text);
    first = false;
  }
  return out;
}

Value items_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("items", arguments, {});
  if (input.is_undefined()) return generator({});
  if (input.dict() == nullptr) throw Failure("Can only get item pairs from a mapping.");
  std::vector<Value> out;
  context.budget.take_values(input.dict()->entries().size());
  for (const auto& [key, value] : input.dict()->entries())
    out.emplace_back(List({key, value}, List::Kind::Tuple));
  return generator(std::move(out));
}

Value sort_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const Value attribute = args.has(2) && !args[2].is_none() ? args[2] : Value();
  std::vector<Value> paths;
  if (attribute.text() != nullptr) {
    context.budget.take(attribute.text()->size());
    for (const Text& path : split(*attribute.text(), ",", -1)) paths.emplace_back(path);
  } else {
    paths.push_back(attribute);
  }
  Keyed items;
  for (const Value& element : context.elements(input)) {
    std::vector<Value> keys;
    for (const Value& path : paths)
      keys.push_back(Key{context, args.truth(1, false), path}.of(element));
    // Always a list: of two that are equal, such as none, nothing is asked.
    items.emplace_back(List(std::move(keys)), element);
  }
  sort_keyed(context, items, args.truth(0, false));
  return List(elements_of(std::move(items)));
}

Value dictsort_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = args.text(1, "key").bytes();
  if (by != "key" && by != "value")
    throw Failure("You can only sort by either \"key\" or \"value\"");
  require_defined(input);
  if (input.dict() == nullptr) throw Failure("dictsort: expected a dict, got " + input.type_name());
  const Key key{context, args.truth(0, false), by == "key" ? 0 : 1};
  Keyed items = keyed(key, context.elements(items_filter(context, input, {})));
  sort_keyed(context, items, args.truth(2, false));
  return List(elements_of(std::move(items)));
}

Value unique_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("unique", arguments, {"case_sensitive", "attribute"});
  const Key key{context, args.truth(0, false),
                args.has(1) && !args[1].is_none() ? args[1] : Value()};
  Dict seen;
  std::vector<Value> out;
  for (const Value& element : context.elements(input)) {
    const Value its_key = key.of(element);
    context.budget.read(its_key.extent().weight);
    if (seen.find(its_key) != nullptr) continue;
    seen.set(its_key, true);
    out.push_back(element);
  }
  return generator(std::move(out));
}

template <bool largest>
Value extreme(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const Key key{context, args.truth(0, false),
                args.has(1) && !args[1].is_none() ? args[1] : Value()};
  const Keyed items = keyed(key, context.elements(input));
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto before = [&](const auto& a, const auto& b) {
    return largest ? less(context, b.first, a.first) : less(context, a.first, b.first);
  };
  return std::min_element(items.begin(), items.end(), before)->second;
}

Value sum_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("sum", arguments, {"attribute", "start"});
  Value sum = args.get(1, 0);
  for (const Value& element : context.elements(input)) {
    const bool whole = !args.has(0) || args[0].is_none();
    sum = arithmetic(context, BinaryOp::Add, sum,
                     whole ? element : at_path(context, element, args[0]));
  }
  return sum;
}

Value groupby_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const Key key{context, args.truth(2, false), args[0], args.get(1, {})};
  Keyed items = keyed(key, context.elements(input));
  sort_keyed(context, items, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0, end = 0; begin < items.size(); begin = end) {
    std::vector<Value> group;
    for (; end < items.size() && equal(context, items[begin].first, items[end].first); ++end)
      group.push_back(items[end].second);
    if (group.empty()) group.push_back(items[end++].second);  // a key that does not equal itself
    const Key whole{context, true, args[0], args.get(1, {})};
    const Value shown = whole.of(group.front());
    groups.emplace_back(List({shown, List(std::move(group))}, List::Kind::Tuple));
  }
  return List(std::move(groups));
}

Value batch_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t size = args.integer(0, 1);
  if (size < 1) throw Failure("batch: expected at least 1");
  std::vector<Value> batches, batch;
  const auto flush = [&] { batches.emplace_back(List(std::exchange(batch, {}))); };
  for (Value& element : context.elements(input)) {
    if (static_cast<std::int64_t>(batch.size()) == size) flush();
    batch.push_back(std::move(element));
  }
  if (args.has(1) && !args[1].is_none() && !batch.empty()) {
    context.budget.take_values(static_cast<std::uint64_t>(size));
    batch.resize(static_cast<std::size_t>(size), args[1]);
  }
  if (!batch.empty()) flush();
  return generator(std::move(batches));
}

Value slice_filter(Context& context, const Value& input, const Arguments& arguments) {
  const Bound args("slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t slices = args.integer(0, 1);
  if (slices < 1) throw Failure("slice: expected at least 1");
  const auto n = static_cast<std::uint64_t>(slices);
  context.budget.take_values(n);
  const std::vector<Value> all = context.elements(input);
  const std::size_t each = all.size() / n, larger = all.size() % n;
  std::vector<Value> out;
  for (std::size_t i = 0, at = 0; i < n; ++i) {
    const std::size_t size = each + (i < larger ? 1 : 0);
    std::vector<Value> part(all.begin() + static_cast<std::ptrdiff_t>(at),
                            all.begin() + static_cast<std::ptrdiff_t>(at + size));
    if (args.has(1) && !args[1].is_none() && i >= larger) part.push_back(args[1]);
    at += size;
    out.emplace_back(List(std::move(part)));
  }
  return generator(std::move(out));
}

/// Arguments without the first n positional ones.
Arguments rest(const Arguments& arguments, std::size_t n) {
  Arguments out = arguments;
  out.positional.erase(
      out.positional.begin(),
      out.positional.begin() + static_cast<std::ptrdiff_t>(std::min(n, out.positional.size())));
  return out;
}

const std::string& name_argument(const Arguments& arguments, std::size_t i, const char* what) {
  if (arguments.positional.size() <= i || arguments.positional[i].text() == nullptr)
    throw Failure(std::string("expected the name of ") + what);
  return arguments.positional[i].text()->bytes();
}

// Jinja2's versions of these four accept any false value, too: none|map(…) is empty for all
// arguments.
Value map_filter(Context& context, const Value& input, const Arguments& arguments) {
  std::vector<Value> out;
  if (!input.truth()) return generator({});
  if (arguments.positional.empty()) {
    const Bound args("map", arguments, {"attribute", "default"}, 1);
    for (const Value& element : context.elements(input)) {
      out.push_back(at_path(context, element, args[0], args.get(1, {})));
    }
  } else {
    const std::string& name = name_argument(arguments, 0, "a filter");
    const Arguments more = rest(arguments, 1);
    for (const Value& element : context.elements(input))
      out.push_back(apply_filter(context, name, element, more));
  }
  return generator(std::move(out));
}

template <bool wanted, bool of_attribute>
Value select_filter(Context& context, const Value& input, const Arguments& arguments) {
  const std::size_t skip = of_attribute ? 1 : 0;
  if (!input.truth()) return generator({});
  if (of_attribute && arguments.positional.empty())
    throw Failure("expected the name of an attribute");
  const bool by_test = arguments.positional.size() > skip;
  const std::string name = by_test ? name_argument(arguments, skip, "a test") : "";
  const Arguments more = rest(arguments, skip + 1);
  std::vector<Value> out;
  for (const Value& element : context.elements(input)) {
    const Value value = of_attribute ? at_path(context, element, arguments.positional[0]) : element;
    if ((by_test ? apply_test(context, name, value, more) : value.truth()) == wanted)
      out.push_back(element);
  }
  return generator(std::move(out));
}

constexpr NamedFilter kSequenceFilters[] = {{"batch", batch_filter},
                                            {"count", length_filter},
                                            {"dictsort", dictsort_filter},
                                            {"first", first_filter},
                                            {"groupby", groupby_filter},
                                            {"items", items_filter},
                                            {"join", join_filter},
                                            {"last", last_filter},
                                            {"length", length_filter},
                                            {"list", list_filter},
                                            {"map", map_filter},
                                            {"max", extreme<true>},
                                            {"min", extreme<false>},
                                            {"reject", select_filter<false, false>},
                                            {"rejectattr", select_filter<false, true>},
                                            {"reverse", reverse_filter},
                                            {"select", select_filter<true, false>},
                                            {"selectattr", select_filter<true, true>},
                                            {"slice", slice_filter},
                                            {"sort", sort_filter},
                                            {"sum", sum_filter},
                                            {"unique", unique_filter}};

}  // namespace

const NamedFilter* find_sequence_filter(std::string_view name) {
  const auto* const found = std::ranges::find(kSequenceFilters, name, &NamedFilter::name);
  return found == std::end(kSequenceFilters) ? nullptr : found;
}

}  // namespace cria::jinja
