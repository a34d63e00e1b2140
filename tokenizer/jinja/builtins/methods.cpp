#include <algorithm>

#include "model/file/utf8.h"
#include "tokenizer/jinja/builtins/builtins.h"
#include "tokenizer/jinja/values/text.h"

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

Value as_markup(const Value& value) {
  if (const Text* text = value.text()) {
    Text out = *text;
    out.set_markup(true);
    return out;
  }
  const List* list = value.list();
  if (list == nullptr) return value;
  std::vector<Value> out;
  for (const Value& item : list->items) out.push_back(as_markup(item));
  return List(std::move(out), list->kind);
}

/// A method of markup: what is put into it is escaped, and its texts are markup.
std::optional<Value> markup_method(const Value& self, std::string_view name) {
  const auto found = std::ranges::find(string_methods(), name, &Method::name);
  if (found == string_methods().end()) return std::nullopt;
  const bool inserts = name == "format" || name == "join" || name == "replace";
  const std::size_t first = name == "replace" ? 1 : 0;  // the text to search for is not put in
  const auto run = [self, inserts, first, run = found->run](Context& context, Arguments arguments) {
    for (std::size_t i = first; inserts && i < arguments.positional.size(); ++i)
      arguments.positional[i] = escaped(context, arguments.positional[i]);
    return as_markup(run(context, self, arguments));
  };
  return function(std::string(name), run);
}

}  // namespace

Value escaped(Context& context, const Value& value) {
  if (const Text* text = value.text()) return context.escaped(*text);
  const List* list = value.list();
  if (list == nullptr) return value;
  std::vector<Value> out;
  context.budget.take_values(list->items.size());
  for (const Value& item : list->items) {
    const Text* text = item.text();
    out.push_back(text == nullptr ? item : Value(context.escaped(*text)));
  }
  return List(std::move(out), list->kind);
}

std::optional<Value> method(const Value& value, std::string_view name) {
  if (const Text* text = value.text())
    return text->is_markup() ? markup_method(value, name)
                             : bound(value, name, string_methods(), {});
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

namespace {

template <std::string (*change)(std::string_view)>
Value map_case(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("a method of str", arguments, {});
  context.budget.step(self.text()->size() / 8);
  return context.made(map_runs(*self.text(), change));
}

template <Text (*change)(const Text&)>
Value change_text(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("a method of str", arguments, {});
  context.budget.step(self.text()->size());
  return context.made(change(*self.text()));
}

template <Side side>
Value strip_side(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("strip", arguments, {"chars"});
  const auto characters = args.optional_text(0);
  context.budget.step((characters ? characters->size() : 0) + self.text()->size() / 16);
  return context.made(strip(*self.text(), characters, side));
}

template <bool from_right>
Value split_at(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("split", arguments, {"sep", "maxsplit"});
  const std::int64_t most = args.integer(1, -1);
  const Text& text = *self.text();
  context.budget.step(text.size() / 4);
  const auto separator = args.optional_text(0);
  if (!separator)
    return text_list(context,
                     from_right ? split_words_from_right(text, most) : split_words(text, most));
  if (separator->empty()) throw Failure("empty separator");
  return text_list(context, from_right ? split_from_right(text, separator->bytes(), most)
                                       : split(text, separator->bytes(), most));
}

Value splitlines(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("splitlines", arguments, {"keepends"});
  context.budget.step(self.text()->size() / 4);
  return text_list(context, split_lines(*self.text(), args.truth(0, false)));
}

template <bool from_right>
Value partition(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("partition", arguments, {"sep"}, 1);
  const Text &text = *self.text(), &separator = args.text(0);
  if (separator.empty()) throw Failure("empty separator");
  context.budget.take(text.size());
  const std::size_t at = from_right ? find_last(text.bytes(), separator.bytes())
                                    : find(text.bytes(), separator.bytes());
  std::vector<Value> parts = {text, Text(), Text()};
  if (at != std::string::npos) {
    const std::size_t after = at + separator.size();
    parts = {text.part(0, at), text.part(at, after), text.part(after, text.size())};
  } else if (from_right) {
    std::swap(parts[0], parts[2]);
  }
  return List(std::move(parts), List::Kind::Tuple);
}

Value replace_text(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("replace", arguments, {"old", "new", "count"}, 2);
  const Text &text = *self.text(), &with = args.text(1);
  const std::string& old = args.text(0).bytes();
  // Bounds the size before it is made.
  context.budget.step(text.size() / 8);
  context.budget.take(text.size() +
                      (text.size() / std::max<std::size_t>(old.size(), 1) + 1) * with.size());
  return replace(text, old, with, args.integer(2, -1));
}

/// The part of the text that optional arguments start and end name, as bytes.
std::pair<std::size_t, std::size_t> range(const Bound& args, const Text& text, std::size_t first) {
  const auto n = static_cast<std::int64_t>(length(text.bytes()));
  const auto offset = [&](std::size_t i, std::int64_t otherwise) {
    std::int64_t at = args.has(i) && args[i].is_none() ? otherwise : args.integer(i, otherwise);
    if (at < 0) at = std::max<std::int64_t>(0, at + n);
    return at > n ? text.size() + 1 : offset_of(text.bytes(), static_cast<std::size_t>(at));
  };
  return {offset(first, 0), std::min(offset(first + 1, n), text.size())};
}

template <bool at_end>
Value has_affix(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args(at_end ? "endswith" : "startswith", arguments, {"prefix", "start", "end"}, 1);
  context.budget.read(self.text()->size());
  const auto [begin, end] = range(args, *self.text(), 1);
  if (begin > end) return false;
  const std::string_view part = std::string_view(self.text()->bytes()).substr(begin, end - begin);
  const auto fits = [&](const Value& affix) {
    if (affix.text() == nullptr) {
      require_defined(affix);
      throw Failure("startswith and endswith want a str or a tuple of str, not " +
                    affix.type_name());
    }
    const std::string& bytes = affix.text()->bytes();
    if (bytes.size() > part.size()) return false;
    context.budget.step(1 + bytes.size() / 64);
    return at_end ? part.ends_with(bytes) : part.starts_with(bytes);
  };
  const List* several = args[0].list();
  if (several == nullptr || several->kind != List::Kind::Tuple) return fits(args[0]);
  return std::ranges::any_of(several->items, fits);
}

/// In characters from the start, or -1.
template <bool from_right>
std::int64_t position(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("find", arguments, {"sub", "start", "end"}, 1);
  context.budget.step(1 + self.text()->size() / 16);
  const auto [begin, end] = range(args, *self.text(), 1);
  const std::string& needle = args.text(0).bytes();
  if (begin > end) return -1;
  const std::string_view whole = self.text()->bytes(), part = whole.substr(begin, end - begin);
  const std::size_t at = from_right ? find_last(part, needle) : find(part, needle);
  return at == std::string_view::npos
             ? -1
             : static_cast<std::int64_t>(length(whole.substr(0, begin + at)));
}

template <bool from_right>
Value find_text(Context& context, const Value& self, const Arguments& arguments) {
  return position<from_right>(context, self, arguments);
}

template <bool from_right>
Value index_text(Context& context, const Value& self, const Arguments& arguments) {
  const std::int64_t at = position<from_right>(context, self, arguments);
  if (at < 0) throw Failure("substring not found");
  return at;
}

Value count_text(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("count", arguments, {"sub", "start", "end"}, 1);
  context.budget.step(1 + self.text()->size() / 16);
  const auto [begin, end] = range(args, *self.text(), 1);
  const std::string& needle = args.text(0).bytes();
  if (begin > end) return 0;
  const std::string_view part = std::string_view(self.text()->bytes()).substr(begin, end - begin);
  if (needle.empty()) return Value::from_size(length(part) + 1);
  std::int64_t n = 0;
  for (std::size_t at = find(part, needle); at != std::string_view::npos;
       at = find(part, needle, at + needle.size()))
    ++n;
  return n;
}

Value join_texts(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("join", arguments, {"iterable"}, 1);
  Text out;
  bool first = true;
  for (const Value& element : context.elements(args[0])) {
    if (element.text() == nullptr) {
      require_defined(element);
      throw Failure("join: expected str, got " + element.type_name());
    }
    context.budget.take(self.text()->size() + element.text()->size());
    if (!first) out.append(*self.text());
    out.append(*element.text());
    first = false;
  }
  return out;
}

template <bool at_end>
Value without_affix(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args(at_end ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  const Text &text = *self.text(), &affix = args.text(0);
  context.budget.read(std::min(affix.size(), text.size()));
  if (at_end ? !text.bytes().ends_with(affix.bytes()) : !text.bytes().starts_with(affix.bytes()))
    return self;
  return context.made(at_end ? text.part(0, text.size() - affix.size())
                             : text.part(affix.size(), text.size()));
}

template <Side side>
Value pad_text(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("center, ljust or rjust", arguments, {"width", "fillchar"}, 1);
  const Text fill = args.text(1, " ");
  if (length(fill.bytes()) != 1)
    throw Failure("The fill character must be exactly one character long");
  const std::size_t width = args.size(0, 0);
  context.budget.take(width);
  context.budget.take(width * 4);
  return context.made(pad(*self.text(), width, fill, side));
}

Value zfill(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("zfill", arguments, {"width"}, 1);
  const Text& text = *self.text();
  const std::size_t width = args.size(0, 0);
  context.budget.read(text.size());
  const std::size_t shown = length(text.bytes());
  if (width <= shown) return self;
  context.budget.take(width);
  const std::size_t sign = text.bytes().starts_with('+') || text.bytes().starts_with('-') ? 1 : 0;
  Text out = text.part(0, sign);
  out.append(std::string(width - shown, '0'), true);
  out.append(text, sign, text.size());
  return out;
}

/// True if the text is not empty and all its characters satisfy `holds`.
template <bool (*holds)(char32_t)>
Value all_chars(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("a method of str", arguments, {});
  const std::string_view bytes = self.text()->bytes();
  context.budget.step(bytes.size() / 8);
  bool all = !bytes.empty();
  each_char(bytes,
            [&](const Utf8Char& c, std::size_t) { all = all && c.valid && holds(c.code_point); });
  return all;
}

bool is_space_char(char32_t c) { return is_space(c); }
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c) || is_digit(c); }
bool is_ascii(char32_t c) { return c < 0x80; }

Value isascii(Context& context, const Value& self, const Arguments& arguments) {
  return self.text()->empty() || all_chars<is_ascii>(context, self, arguments).truth();
}

/// Cased characters there are, all of them in this case.
template <bool (*wanted)(char32_t)>
Value in_case(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("a method of str", arguments, {});
  const std::string_view bytes = self.text()->bytes();
  context.budget.step(bytes.size() / 8);
  bool found = false, others = false;
  each_char(bytes, [&](const Utf8Char& c, std::size_t) {
    const bool fits = c.valid && wanted(c.code_point);
    found = found || fits;
    others = others || (!fits && c.valid && is_cased(c.code_point));
  });
  return found && !others;
}

Value istitle(Context& context, const Value& self, const Arguments& arguments) {
  const Bound args("istitle", arguments, {});
  context.budget.step(self.text()->size());
  bool in_word = false, found = false, wrong = false;
  each_char(self.text()->bytes(), [&](const Utf8Char& c, std::size_t) {
    const bool cased = c.valid && is_cased(c.code_point);
    wrong = wrong || (cased && is_lower(c.code_point) != in_word);
    found = found || cased;
    in_word = cased;
  });
  return found && !wrong;
}

Value format(Context& context, const Value& self, const Arguments& arguments) {
  return brace_format(context, *self.text(), arguments);
}

constexpr Method kMethods[] = {
    {"capitalize", change_text<capitalize>},
    {"casefold", map_case<case_fold>},
    {"center", pad_text<Side::Both>},
    {"count", count_text},
    {"endswith", has_affix<true>},
    {"find", find_text<false>},
    {"format", format},
    {"index", index_text<false>},
    {"isalnum", all_chars<is_alnum>},
    {"isalpha", all_chars<is_alpha>},
    {"isascii", isascii},
    {"isdecimal", all_chars<is_decimal>},
    {"isdigit", all_chars<is_digit>},
    {"islower", in_case<is_lower>},
    {"isnumeric", all_chars<is_numeric>},
    {"isspace", all_chars<is_space_char>},
    {"istitle", istitle},
    {"isupper", in_case<is_upper>},
    {"join", join_texts},
    {"ljust", pad_text<Side::Left>},
    {"lower", map_case<lower>},
    {"lstrip", strip_side<Side::Left>},
    {"partition", partition<false>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replace_text},
    {"rfind", find_text<true>},
    {"rindex", index_text<true>},
    {"rjust", pad_text<Side::Right>},
    {"rpartition", partition<true>},
    {"rsplit", split_at<true>},
    {"rstrip", strip_side<Side::Right>},
    {"split", split_at<false>},
    {"splitlines", splitlines},
    {"startswith", has_affix<false>},
    {"strip", strip_side<Side::Both>},
    {"swapcase", change_text<swap_case>},
    {"title", change_text<title>},
    {"upper", map_case<upper>},
    {"zfill", zfill},
};

}  // namespace

std::span<const Method> string_methods() { return kMethods; }

}  // namespace cria::jinja
