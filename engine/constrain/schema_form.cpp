#include "engine/constrain/schema_form.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/constrain/regex.h"
#include "model/file/utf8.h"

namespace cria {
namespace {

std::string pointer_part(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~' || c == '/')
      out += c == '~' ? "~0" : "~1";
    else
      out += c;
  }
  return out;
}

[[noreturn]] void refuse(const std::string& what, const std::string& place) {
  throw ConstraintError("schema: " + what, place.empty() ? "/" : place);
}

[[noreturn]] void refuse_malformed(const std::string& what, const std::string& place) {
  throw ConstraintError("schema: " + what, place.empty() ? "/" : place, true);
}

void require_kind(bool holds, std::string_view kind, const std::string& at) {
  if (!holds) refuse_malformed("expected " + std::string(kind), at);
}

unsigned type_named(const SchemaJson& name, const std::string& at) {
  constexpr std::pair<std::string_view, unsigned> kTypes[] = {
      {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType}, {"number", kNumberType},
      {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType}};
  require_kind(name.is_string(), "the name of a type", at);
  for (const auto& [known, type] : kTypes)
    if (name.get_ref<const std::string&>() == known) return type;
  refuse_malformed("unknown type " + name.get<std::string>(), at);
}

// A count: an integer from 0 on, which may be written 5.0.
std::size_t count_of(const SchemaJson& value, const std::string& at) {
  const double count = value.is_number() ? value.get<double>() : -1;
  require_kind(count >= 0 && count == std::floor(count), "an integer from 0 on", at);
  if (count > 9e15) refuse("counts above 9e15 are not supported", at);
  return static_cast<std::size_t>(count);
}

// A reference is a URI: generators of schemas write List<int> as List%3Cint%3E.
std::string without_percents(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool escaped = text[i] == '%' && i + 2 < text.size() &&
                         std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    out += escaped ? static_cast<char>(byte) : text[i];
    if (escaped) i += 2;
  }
  return out;
}

bool is_annotation(std::string_view key) {
  constexpr std::string_view kNames[] = {"title",    "description", "default",  "examples",
                                         "$schema",  "$id",         "$comment", "deprecated",
                                         "readOnly", "writeOnly",   "$defs",    "definitions"};
  return std::ranges::count(kNames, key) != 0;
}

bool is_combination(std::string_view key) {
  return key == "$ref" || key == "anyOf" || key == "oneOf" || key == "allOf";
}

// Steps that copying or comparing so much text takes, beside those of any text.
std::size_t steps_of_text(std::size_t bytes) { return bytes / 32; }

// Steps that comparing a value takes.
std::size_t weight_of(const SchemaJson& value) {
  if (value.is_string()) return 1 + steps_of_text(value.get_ref<const std::string&>().size());
  std::size_t weight = 1;
  if (!value.is_structured()) return weight;
  for (const auto& [key, member] : value.items())
    weight += weight_of(member) + (value.is_object() ? steps_of_text(key.size()) : 0);
  return weight;
}

// About; without what is shared.
std::size_t bytes_of(const SchemaAlternative& one) {
  constexpr std::size_t kBlock = 16;  // what an allocation takes beside its bytes
  const auto of_list = [](const auto& list) {
    return list.capacity() == 0 ? 0 : kBlock + list.capacity() * sizeof(list[0]);
  };
  std::size_t bytes = sizeof one + of_list(one.patterns) + of_list(one.prefix) + of_list(one.items) +
                      of_list(one.properties) + of_list(one.required) + of_list(one.additional);
  for (const SchemaSet& set : one.prefix) bytes += of_list(set);
  for (const auto& [name, set] : one.properties) bytes += of_list(set);
  return bytes;
}

// What satisfies both, but for their values.
SchemaAlternative merged(const SchemaAlternative& a, const SchemaAlternative& b) {
  SchemaAlternative out = a;
  out.types &= b.types;
  out.bounds = tighter(a.bounds, b.bounds);
  out.least_length = std::max(a.least_length, b.least_length);
  out.most_length = std::min(a.most_length, b.most_length);
  for (const auto& pattern : b.patterns)
    if (std::ranges::count(out.patterns, pattern) == 0) out.patterns.push_back(pattern);
  out.least_items = std::max(a.least_items, b.least_items);
  out.most_items = std::min(a.most_items, b.most_items);
  out.prefix.resize(std::max(a.prefix.size(), b.prefix.size()));
  for (std::size_t i = 0; i < out.prefix.size(); ++i)
    out.prefix[i] =
        united(i < a.prefix.size() ? a.prefix[i] : a.items, i < b.prefix.size() ? b.prefix[i] : b.items);
  out.items = united(a.items, b.items);
  const auto schema_in = [](const SchemaAlternative& one, std::string_view name) -> const SchemaSet* {
    const auto found = std::ranges::find(one.properties, name, [](const auto& p) { return p.first; });
    return found == one.properties.end() ? nullptr : &found->second;
  };
  for (auto& [name, set] : out.properties) {
    const SchemaSet* const other = schema_in(b, name);
    set = united(set, other != nullptr ? *other : b.additional);
  }
  for (const auto& [name, set] : b.properties)
    if (schema_in(a, name) == nullptr) out.properties.emplace_back(name, united(set, a.additional));
  for (const std::string_view name : b.required)
    if (std::ranges::count(out.required, name) == 0) out.required.push_back(name);
  out.additional = united(a.additional, b.additional);
  return out;
}

// RFC 3339 and RFC 4122 as expressions; days as the calendar has them.
std::string_view format_expression(std::string_view name) {
#define CRIA_DATE                                                                                            \
  "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8])" \
  ")"                                                                                                        \
  "|(\\d\\d(0[48]|[2468][048]|[13579][26])|(0[048]|[2468][048]|[13579][26])00)-02-29)"
#define CRIA_TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
  constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
      {"date", CRIA_DATE},
      {"time", CRIA_TIME},
      {"date-time", CRIA_DATE "T" CRIA_TIME},
      {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
      {"ipv4", "((\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])\\.){3}(\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])"}};
#undef CRIA_DATE
#undef CRIA_TIME
  for (const auto& [known, expression] : kFormats)
    if (name == known) return expression;
  return {};
}

}  // namespace

SchemaForms::SchemaForms(const SchemaJson& root, Budget& budget) : root_(root), budget_(budget) {
  number(root, "");
}

std::string SchemaForms::place(const SchemaSet& set) const {
  return set.empty() ? "" : schemas_[set.front()].place;
}

std::uint32_t SchemaForms::number(const SchemaJson& schema, const std::string& place) {
  require_kind(schema.is_object() || schema.is_boolean(), "an object, true or false", place);
  const auto [found, is_new] = numbers_.try_emplace(&schema, static_cast<std::uint32_t>(schemas_.size()));
  budget_.steps(16 + steps_of_text(place.size()));
  if (!is_new) return found->second;
  budget_.bytes(sizeof(Subschema) + 64 + place.size());
  schemas_.push_back({&schema, place});
  return found->second;
}

// Of what has been made.
void SchemaForms::hold(SchemaAlternative& one) {
  const std::size_t bytes = bytes_of(one);
  budget_.steps(bytes / 64);
  one.held = HeldBytes(budget_, bytes);
}

SchemaForms::Alternatives SchemaForms::both(const Alternatives& a, const Alternatives& b) {
  Alternatives out;
  for (const SchemaAlternative& x : a) {
    for (const SchemaAlternative& y : b) {
      budget_.steps(64 + 8 * (x.properties.size() + y.properties.size() + x.prefix.size() + y.prefix.size()) +
                    x.properties.size() * y.properties.size() + x.required.size() * y.required.size());
      SchemaAlternative one = merged(x, y);
      if (one.types == 0) continue;
      one.values = values_in_both(x.values, y.values);
      hold(one);
      out.push_back(std::move(one));
    }
  }
  return out;
}

SchemaAlternatives SchemaForms::alternatives(const SchemaSet& set) {
  Alternatives out(1);
  for (const std::uint32_t id : set) out = both(out, read(id));
  return out;
}

SchemaForms::Alternatives SchemaForms::read(std::uint32_t id) {
  const SchemaJson& schema = *schemas_[id].json;
  const std::string place = schemas_[id].place;
  if (schema.is_boolean()) return Alternatives(schema.get<bool>() ? 1 : 0);
  if (open_.contains(id)) refuse_malformed("refers to itself without an end", place);
  constexpr std::size_t kDeepest = 200;  // of schemas of one value: references nest them in any text
  if (open_.size() == kDeepest) refuse("alternatives and references are nested too deeply", place);
  open_.insert(id);
  Alternatives out{read_keywords(schema, place)};
  for (const auto& [key, value] : schema.items()) {
    if (!is_combination(key)) continue;
    const std::string at = place + pointer_part(key);
    if (key == "$ref") out = both(out, read(referred(value, at)));
    if (key == "anyOf") out = both(out, any_of(value, at));
    if (key == "oneOf") out = both(out, one_of(value, at));
    if (key != "allOf") continue;
    require_kind(value.is_array() && !value.empty(), "a list of schemas", at);
    for (std::size_t i = 0; i < value.size(); ++i)
      out = both(out, read(number(value[i], at + "/" + std::to_string(i))));
  }
  open_.erase(id);
  return out;
}

SchemaForms::Alternatives SchemaForms::any_of(const SchemaJson& list, const std::string& at) {
  require_kind(list.is_array() && !list.empty(), "a list of schemas", at);
  Alternatives out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    Alternatives more = read(number(list[i], at + "/" + std::to_string(i)));
    budget_.steps(64 * more.size());
    std::ranges::move(more, std::back_inserter(out));
  }
  return out;
}

// As anyOf; that no value satisfies two of them is asked later, when no schema is being read.
SchemaForms::Alternatives SchemaForms::one_of(const SchemaJson& list, const std::string& at) {
  Alternatives out = any_of(list, at);
  if (!one_ofs_.insert(&list).second) return out;
  budget_.bytes(sizeof(SchemaExclusion) + at.size() + list.size() * (sizeof(SchemaSet) + 16));
  SchemaExclusion exclusion{at, {}};
  for (const SchemaJson& one : list) exclusion.schemas.push_back({number(one, at)});
  exclusive_.push_back(std::move(exclusion));
  return out;
}

// Looked for once: that reads the reference, and a list of definitions.
std::uint32_t SchemaForms::referred(const SchemaJson& ref, const std::string& at) {
  const auto known = referred_.find(&ref);
  if (known != referred_.end()) return known->second;
  return referred_[&ref] = find_referred(ref, at);
}

std::uint32_t SchemaForms::find_referred(const SchemaJson& ref, const std::string& at) {
  require_kind(ref.is_string(), "a reference", at);
  const auto& text = ref.get_ref<const std::string&>();
  if (!text.starts_with("#") || (text.size() > 1 && text[1] != '/'))
    refuse("references outside of the schema are not supported: " + text, at);
  const SchemaJson* target = nullptr;
  try {
    const nlohmann::json_pointer<std::string> pointer(without_percents(text.substr(1)));
    if (root_.contains(pointer)) target = &root_.at(pointer);
  } catch (const SchemaJson::exception&) {
  }
  if (target == nullptr) refuse_malformed("refers to what is not there: " + text, at);
  return number(*target, text.substr(1));
}

SchemaAlternative SchemaForms::read_keywords(const SchemaJson& schema, const std::string& place) {
  SchemaAlternative out;
  for (const auto& [key, value] : schema.items()) {
    budget_.steps(16 + steps_of_text(place.size() + key.size()));
    if (is_annotation(key) || is_combination(key)) continue;
    read_keyword(key, value, place + pointer_part(key), out);
  }
  for (const std::string_view name : out.required) {
    const auto has_name = [&](const auto& property) { return property.first == name; };
    budget_.steps(out.properties.size());
    if (std::ranges::none_of(out.properties, has_name)) out.properties.emplace_back(name, out.additional);
  }
  hold(out);
  return out;
}

std::shared_ptr<const SchemaValues> SchemaForms::values_of(const SchemaJson& value, bool is_list) {
  auto& known = values_[&value];
  if (known) return known;
  SchemaValues values;
  const auto add = [&](const SchemaJson& one) {
    values.list.push_back({&one, weight_of(one)});
    values.weight += values.list.back().weight;
  };
  if (is_list)
    for (const SchemaJson& one : value) add(one);
  else
    add(value);
  budget_.steps(values.weight);
  values.held = HeldBytes(budget_, sizeof values + values.list.capacity() * sizeof(SchemaValues::Value));
  return known = std::make_shared<const SchemaValues>(std::move(values));
}

std::shared_ptr<const SchemaValues> SchemaForms::values_in_both(
    const std::shared_ptr<const SchemaValues>& a, const std::shared_ptr<const SchemaValues>& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  budget_.steps(a->weight * b->list.size());
  SchemaValues both;
  for (const SchemaValues::Value& value : a->list) {
    const auto is_it = [&value](const SchemaValues::Value& other) { return *other.json == *value.json; };
    if (std::ranges::none_of(b->list, is_it)) continue;
    both.list.push_back(value);
    both.weight += value.weight;
  }
  both.held = HeldBytes(budget_, sizeof both + both.list.capacity() * sizeof(SchemaValues::Value));
  return std::make_shared<const SchemaValues>(std::move(both));
}

void SchemaForms::read_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                               SchemaAlternative& out) {
  if (key == "type") {
    out.types = 0;
    if (value.is_array())
      for (const SchemaJson& one : value) out.types |= type_named(one, at);
    else
      out.types = type_named(value, at);
    require_kind(out.types != 0, "at least one type", at);
  } else if (key == "enum" || key == "const") {
    if (key == "enum") require_kind(value.is_array() && !value.empty(), "a list of values", at);
    out.values = values_in_both(values_of(value, key == "enum"), out.values);
  } else if (!read_number_keyword(key, value, at, out) && !read_string_keyword(key, value, at, out) &&
             !read_array_keyword(key, value, at, out) && !read_object_keyword(key, value, at, out)) {
    refuse("keyword " + key + " is not supported", at);
  }
}

bool SchemaForms::read_number_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                                      SchemaAlternative& out) {
  const bool low = key == "minimum" || key == "exclusiveMinimum";
  const bool high = key == "maximum" || key == "exclusiveMaximum";
  if (!low && !high) return false;
  require_kind(value.is_number(), "a number", at);
  const NumberBounds::Bound bound{Decimal::of(value), key.starts_with("exclusive")};
  NumberBounds bounds;
  (low ? bounds.low : bounds.high) = bound;
  out.bounds = tighter(out.bounds, bounds);
  return true;
}

bool SchemaForms::read_string_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                                      SchemaAlternative& out) {
  if (key == "minLength") {
    out.least_length = count_of(value, at);
  } else if (key == "maxLength") {
    out.most_length = count_of(value, at);
  } else if (key == "pattern" || key == "format") {
    require_kind(value.is_string(), "a text", at);
    const auto& text = value.get_ref<const std::string&>();
    if (key == "pattern") {
      out.patterns.push_back(pattern(text, true, at));
    } else if (const std::string_view format = format_expression(text); !format.empty()) {
      out.patterns.push_back(pattern(std::string(format), false, at));
    }
  } else {
    return false;
  }
  return true;
}

std::shared_ptr<const CharDfa> SchemaForms::pattern(const std::string& expression, bool anywhere,
                                                    const std::string& at) {
  auto& known = patterns_[(anywhere ? "a" : "w") + expression];
  if (known) return known;
  try {
    known = std::make_shared<const CharDfa>(regex_dfa(expression, anywhere, budget_));
  } catch (const ConstraintError& error) {
    throw ConstraintError(std::string("schema: ") + error.what(), at);
  }
  return known;
}

bool SchemaForms::read_array_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                                     SchemaAlternative& out) {
  if (key == "items") {
    out.items = {number(value, at)};
  } else if (key == "prefixItems") {
    require_kind(value.is_array(), "a list of schemas", at);
    for (std::size_t i = 0; i < value.size(); ++i)
      out.prefix.push_back({number(value[i], at + "/" + std::to_string(i))});
  } else if (key == "minItems") {
    out.least_items = count_of(value, at);
  } else if (key == "maxItems") {
    out.most_items = count_of(value, at);
  } else {
    return false;
  }
  return true;
}

bool SchemaForms::read_object_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                                      SchemaAlternative& out) {
  if (key == "properties") {
    require_kind(value.is_object(), "an object of schemas", at);
    for (const auto& [name, schema] : value.items())
      out.properties.emplace_back(name, SchemaSet{number(schema, at + pointer_part(name))});
  } else if (key == "required") {
    require_kind(value.is_array(), "a list of names", at);
    for (const SchemaJson& name : value) {
      require_kind(name.is_string(), "a list of names", at);
      budget_.steps(1 + out.required.size());
      const auto& text = name.get_ref<const std::string&>();
      if (std::ranges::count(out.required, text) == 0) out.required.push_back(text);
    }
  } else if (key == "additionalProperties") {
    out.additional = {number(value, at)};
  } else {
    return false;
  }
  return true;
}

bool SchemaForms::satisfies(const SchemaJson& value, const SchemaSet& set) {
  if (set.empty()) return true;
  const Alternatives all = alternatives(set);
  return std::ranges::any_of(all, [&](const SchemaAlternative& one) { return satisfies(value, one); });
}

bool SchemaForms::satisfies(const SchemaJson& value, const SchemaAlternative& one) {
  budget_.steps(32 + (one.values ? one.values->weight : 0));
  const auto is_it = [&value](const SchemaValues::Value& other) { return *other.json == value; };
  if (one.values && std::ranges::none_of(one.values->list, is_it)) return false;
  if (value.is_null()) return (one.types & kNullType) != 0;
  if (value.is_boolean()) return (one.types & kBooleanType) != 0;
  if (value.is_number()) {
    const Decimal decimal = Decimal::of(value);
    return (one.types & (decimal.fraction.empty() ? kIntegerType : kFractionType)) != 0 &&
           one.bounds.hold(decimal);
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    budget_.steps(steps_of_text(text.size()) + text.size() * one.patterns.size());
    const auto length = static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
    return (one.types & kStringType) != 0 && one.least_length <= length && length <= one.most_length &&
           std::ranges::all_of(one.patterns, [&](const auto& dfa) { return dfa->accepts(text); });
  }
  if (value.is_array()) {
    if ((one.types & kArrayType) == 0 || value.size() < one.least_items || value.size() > one.most_items)
      return false;
    for (std::size_t i = 0; i < value.size(); ++i)
      if (!satisfies(value[i], i < one.prefix.size() ? one.prefix[i] : one.items)) return false;
    return true;
  }
  if ((one.types & kObjectType) == 0) return false;
  budget_.steps(value.size() * (1 + one.required.size() + one.properties.size()));
  for (const std::string_view name : one.required)
    if (!value.contains(name)) return false;
  for (const auto& [name, member] : value.items()) {
    const auto found = std::ranges::find(one.properties, name, [](const auto& p) { return p.first; });
    if (!satisfies(member, found != one.properties.end() ? found->second : one.additional)) return false;
  }
  return true;
}

SchemaSet united(const SchemaSet& a, const SchemaSet& b) {
  SchemaSet out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

}  // namespace cria
