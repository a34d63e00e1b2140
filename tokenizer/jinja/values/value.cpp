#include "tokenizer/jinja/values/value.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "model/file/utf8.h"
#include "tokenizer/jinja/builtins/builtins.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::jinja {

namespace {

template <class T>
const T* pointer(const Value::Variant& variant) {
  const auto* const held = std::get_if<std::shared_ptr<const T>>(&variant);
  return held == nullptr ? nullptr : held->get();
}

void include(Extent& extent, const Value& part) {
  const Extent more = part.extent();
  if (more.depth >= List::kDeepest) throw Failure("a value is nested too deeply");
  extent.depth = std::max(extent.depth, more.depth + 1);
  if (__builtin_add_overflow(extent.weight, more.weight + 2, &extent.weight))
    throw Failure("a value is too large");
}

constexpr std::uint64_t kLargestKey = 1 << 16;

std::string canonical_text(std::string_view text) { return "s" + std::string(text); }

// Equal for keys that Python takes for equal.
std::string canonical(const Value& key) {
  if (const Text* text = key.text()) return canonical_text(text->bytes());
  if (const auto i = key.integer()) return "i" + std::to_string(*i);
  if (const auto d = key.real()) {
    if (std::floor(*d) == *d && std::abs(*d) < 9e18)
      return "i" + std::to_string(static_cast<std::int64_t>(*d));
    return "f" + std::to_string(std::bit_cast<std::uint64_t>(*d));
  }
  if (key.is_none()) return "n";
  if (key.is_undefined()) return "u";
  if (const Object* object = key.object())
    return "o" + std::to_string(reinterpret_cast<std::uintptr_t>(object));
  if (const List* list = key.list(); list != nullptr && list->kind == List::Kind::Tuple) {
    if (list->extent.weight > kLargestKey) throw Failure("a tuple is too large for a key");
    std::string all = "t";
    for (const Value& item : list->items) {
      const std::string one = canonical(item);
      all += std::to_string(one.size()) + ":" + one;
    }
    return all;
  }
  throw Failure("unhashable type: '" + key.type_name() + "'");
}

}  // namespace

Value::Value(List list) : v_(std::make_shared<const List>(std::move(list))) {}
Value::Value(Dict dict) : v_(std::make_shared<const Dict>(std::move(dict))) {}

Value Value::undefined(std::string why) {
  Value value;
  value.v_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return value;
}

Value Value::large_integer(std::string digits) {
  Value value;
  value.v_ = LargeInteger{std::make_shared<const std::string>(std::move(digits))};
  return value;
}

const std::string* Value::large_integer() const {
  const auto* const n = std::get_if<LargeInteger>(&v_);
  return n == nullptr ? nullptr : n->digits.get();
}

std::optional<std::int64_t> Value::integer() const {
  if (const auto* const i = std::get_if<std::int64_t>(&v_)) return *i;
  if (const auto* const b = std::get_if<bool>(&v_)) return *b ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::real() const {
  if (const auto* const d = std::get_if<double>(&v_)) return *d;
  if (const auto i = integer()) return static_cast<double>(*i);
  if (const auto* const digits = large_integer()) return std::strtod(digits->c_str(), nullptr);
  return std::nullopt;
}

const Text* Value::text() const { return pointer<Text>(v_); }
const List* Value::list() const { return pointer<List>(v_); }
const Dict* Value::dict() const { return pointer<Dict>(v_); }
Object* Value::object() const {
  const auto* const held = std::get_if<std::shared_ptr<Object>>(&v_);
  return held == nullptr ? nullptr : held->get();
}

bool Value::truth() const {
  if (const Text* t = text()) return !t->empty();
  if (const List* l = list()) return !l->items.empty();
  if (const Dict* d = dict()) return !d->entries().empty();
  if (const auto d = real()) return *d != 0;
  return object() != nullptr;
}

std::string Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_float()) return "float";
  if (integer()) return "int";
  if (text() != nullptr) return "str";
  if (dict() != nullptr) return "dict";
  if (const Object* o = object()) return o->type_name();
  constexpr const char* kNames[] = {"list",      "tuple",       "range",
                                    "dict_keys", "dict_values", "dict_items"};
  return kNames[static_cast<std::size_t>(list()->kind)];
}

std::string Value::why_undefined() const {
  const auto* const undefined = std::get_if<Undefined>(&v_);
  return undefined != nullptr && undefined->why != nullptr ? *undefined->why
                                                           : "a value is undefined";
}

Extent Value::extent() const {
  if (const Text* t = text()) return {0, t->size() + 2};
  if (const List* l = list()) return l->extent;
  if (const Dict* d = dict()) return d->extent();
  if (const Object* o = object()) {
    const std::string type = o->type_name();
    const bool freed_at_the_end = type == "Namespace" || type == "Macro";
    return {freed_at_the_end ? 0 : type == "LoopContext" ? kLoopDepth : kHolderDepth, 24};
  }
  return {0, 24};
}

List::List(std::vector<Value> values, Kind k, std::string shown_as)
    : items(std::move(values)), kind(k), range(std::move(shown_as)), extent{1, 2} {
  for (const Value& item : items) include(extent, item);
}

const Value* Dict::find_canonical(const std::string& key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Value* Dict::find(const Value& key) const { return find_canonical(canonical(key)); }
const Value* Dict::find(std::string_view key) const { return find_canonical(canonical_text(key)); }

void Dict::set(const Value& key, Value value) {
  include(extent_, key);
  include(extent_, value);
  const auto [at, added] = index_.emplace(canonical(key), entries_.size());
  if (added)
    entries_.emplace_back(key, std::move(value));
  else
    entries_[at->second].second = std::move(value);
}

void Dict::clear() {
  entries_.clear();
  index_.clear();
  extent_ = Extent{1, 2};
}

Value Object::call(Context&, const Arguments&) {
  throw Failure("'" + type_name() + "' object is not callable");
}

std::optional<Value> Namespace::attribute(std::string_view name) {
  const Value* found = fields.find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

// Values as Python prints them.

namespace {

std::string escaped(const Utf8Char& c, unsigned char byte) {
  const std::uint32_t code = c.valid ? std::uint32_t{c.code_point} : byte;
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  char out[12];
  std::snprintf(out, sizeof out,
                code < 0x100     ? "\\x%02x"
                : code < 0x10000 ? "\\u%04x"
                                 : "\\U%08x",
                code);
  return out;
}

Text repr_text(const Text& text) {
  const std::string& bytes = text.bytes();
  const bool single = bytes.find('\'') == std::string::npos || bytes.find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  Text out(std::string(1, quote), true);
  each_char(bytes, [&](const Utf8Char& c, std::size_t at) {
    if (bytes[at] == quote || bytes[at] == '\\')
      out.append(std::string{'\\', bytes[at]}, text.trusted_at(at));
    else if (c.valid && is_printable(c.code_point))
      out.append(text, at, at + c.bytes);
    else
      out.append(escaped(c, static_cast<unsigned char>(bytes[at])), text.trusted_at(at));
  });
  out.append(std::string(1, quote), true);
  return out;
}

Text repr_items(const List& list) {
  Text out;
  for (const Value& item : list.items) {
    if (!out.empty()) out.append(", ", true);
    out.append(repr(item));
  }
  return out;
}

Text around(std::string_view before, const Text& inside, std::string_view after) {
  Text out(std::string(before), true);
  out.append(inside);
  out.append(after, true);
  return out;
}

Text repr_list(const List& list) {
  constexpr std::pair<std::string_view, std::string_view> kBrackets[] = {{"[", "]"},
                                                                         {"(", ")"},
                                                                         {},
                                                                         {"dict_keys([", "])"},
                                                                         {"dict_values([", "])"},
                                                                         {"dict_items([", "])"}};
  if (list.kind == List::Kind::Range) return {list.range, true};
  const auto& [open, close] = kBrackets[static_cast<std::size_t>(list.kind)];
  const bool comma = list.kind == List::Kind::Tuple && list.items.size() == 1;
  return around(open, repr_items(list), comma ? ",)" : close);
}

Text repr_entries(const Dict& dict) {
  Text out;
  for (const auto& [key, value] : dict.entries()) {
    if (!out.empty()) out.append(", ", true);
    out.append(repr(key));
    out.append(": ", true);
    out.append(repr(value));
  }
  return out;
}

}  // namespace

Text Namespace::shown() const { return around("<Namespace {", repr_entries(fields), "}>"); }

// The shortest digits that read back as the same number; an exponent where Python has one: below
// 1e-4 and from 1e16 on.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double size = std::abs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr);
  return scientific || text.find('.') != std::string::npos ? text : text + ".0";
}

Text repr(const Value& value) {
  if (const Text* text = value.text()) return repr_text(*text);
  if (value.object_as<Namespace>() != nullptr) return {"<Namespace …>", true};
  return value.is_undefined() ? Text("Undefined", true) : to_text(value);
}

Text to_text(const Value& value) {
  if (const Text* text = value.text()) return *text;
  if (const List* list = value.list()) return repr_list(*list);
  if (const Dict* dict = value.dict()) return around("{", repr_entries(*dict), "}");
  if (const Object* object = value.object()) return object->shown();
  if (value.is_undefined()) return {};
  if (value.is_none()) return {"None", true};
  if (value.is_bool()) return {value.truth() ? "True" : "False", true};
  if (const auto* const digits = value.large_integer()) return {*digits, true};
  if (value.is_float()) return {float_text(*value.real()), true};
  return {std::to_string(*value.integer()), true};
}

}  // namespace cria::jinja
