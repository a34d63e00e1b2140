// The keywords of JSON Schema, each into what has to hold.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/constrain/code_points.h"
#include "engine/constrain/json_text.h"
#include "engine/constrain/schema.h"

namespace cria {
namespace {

unsigned type_named(const Json& name, const std::string& at) {
  constexpr std::pair<std::string_view, unsigned> kTypes[] = {
      {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType},
      {"number", kNumberType}, {"string", kStringType},   {"array", kArrayType},
      {"object", kObjectType}};
  require_kind(name.is_string(), "the name of a type", at);
  for (const auto& [known, type] : kTypes)
    if (name.get_ref<const std::string&>() == known) return type;
  refuse_malformed_schema("unknown type " + name.get<std::string>(), at);
}

// A count: an integer from 0 on, which may be written 5.0.
std::size_t count_of(const Json& value, const std::string& at) {
  const double count = value.is_number() ? value.get<double>() : -1;
  require_kind(count >= 0 && count == std::floor(count), "an integer from 0 on", at);
  if (count > 9e15) refuse_schema("counts above 9e15 are not supported", at);
  return static_cast<std::size_t>(count);
}

bool is_annotation(std::string_view key) {
  constexpr std::string_view kNames =
      " title description default examples $schema $id $comment deprecated readOnly writeOnly "
      "$defs "
      "definitions contentEncoding contentMediaType contentSchema example $anchor $vocabulary "
      "externalDocs xml enumDescriptions enumNames markdownDescription ";
  return key.starts_with("x-") ||
         (key.find(' ') == key.npos && kNames.find(" " + std::string(key) + " ") != key.npos);
}

// An integer beyond 64 bits was read as a double and may have changed.
void check_exact(const Json& value, const std::string& at) {
  if (value.is_number_float() && std::abs(value.get<double>()) >= 0x1p63)
    refuse_schema("numbers from 2^63 that are not 64-bit integers are not supported", at);
  if (!value.is_structured()) return;
  for (const Json& member : value) check_exact(member, at);
}

// Steps that comparing a value takes.
std::size_t weight_of(const Json& value) {
  if (value.is_string()) return 1 + steps_of_text(value.get_ref<const std::string&>().size());
  std::size_t weight = 1;
  if (!value.is_structured()) return weight;
  for (const auto& [key, member] : value.items())
    weight += weight_of(member) + (value.is_object() ? steps_of_text(key.size()) : 0);
  return weight;
}

// Formats as expressions, by RFC 3339, 4122, 4291, 1123 and 5322; days as the calendar has them.
// Host names have at most six labels of 41 characters and no hyphens in a row, mailboxes no quotes,
// and IPv6 addresses no IPv4 part.
const std::map<std::string_view, std::string>& formats() {
  static const std::map<std::string_view, std::string> kFormats = [] {
    const std::string date =
        R"((\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30))"
        R"(|02-(0[1-9]|1\d|2[0-8]))|(\d\d(0[48]|[2468][048]|[13579][26]))"
        R"(|(0[048]|[2468][048]|[13579][26])00)-02-29))";
    const std::string time =
        R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
    const std::string days = R"((\d{1,9}D|\d{1,9}M(\d{1,9}D)?|\d{1,9}Y(\d{1,9}M(\d{1,9}D)?)?))";
    const std::string hours = R"(T(\d{1,9}S|\d{1,9}M(\d{1,9}S)?|\d{1,9}H(\d{1,9}M(\d{1,9}S)?)?))";
    const std::string byte = R"((\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5]))";
    const std::string group = "[0-9a-fA-F]{1,4}";
    const std::string label = "[A-Za-z0-9](-?[A-Za-z0-9]){0,20}";
    const std::string host = label + R"((\.)" + label + "){0,5}";
    const std::string atom = R"([A-Za-z0-9!#$%&'*+/=?^_`{|}~-])";
    std::string ipv6 = "(" + group + ":){7}" + group + "|(" + group + ":){1,7}:|:(:" + group +
                       "){1,7}|::";  // then all with groups on both sides of the gap
    for (int before = 1; before < 7; ++before)
      ipv6 += "|(" + group + ":){1," + std::to_string(before) + "}(:" + group + "){1," +
              std::to_string(7 - before) + "}";
    return std::map<std::string_view, std::string>{
        {"date", date},
        {"time", time},
        {"date-time", date + "T" + time},
        {"duration", R"(P(\d{1,9}W|)" + days + "(" + hours + ")?|" + hours + ")"},
        {"uuid", "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"},
        {"ipv4", "(" + byte + R"(\.){3})" + byte},
        {"ipv6", ipv6},
        {"hostname", host},
        {"email", atom + R"((\.?)" + atom + "){0,31}@" + host}};
  }();
  return kFormats;
}

}  // namespace

SchemaAlternative SchemaForms::read_keywords(const Json& schema, const std::string& place) {
  SchemaAlternative out;
  for (const auto& [key, value] : schema.items()) {
    budget_.steps(16 + steps_of_text(place.size() + key.size()));
    if (is_annotation(key) || is_combination(key) || key == "nullable" ||
        key == "patternProperties")
      continue;
    // OpenAPI's, which says by what member alternatives differ.
    if (key == "discriminator" && (schema.contains("oneOf") || schema.contains("anyOf"))) continue;
    const std::string at = place + pointer_part(key);
    if (!read_old_keyword(schema, key, value, at, out)) read_keyword(key, value, at, out);
  }
  if (const auto patterns = schema.find("patternProperties"); patterns != schema.end())
    read_patterns(*patterns, place + "/patternProperties", out);
  for (const std::string_view name : out.required) {
    const auto has_name = [&](const auto& property) { return property.first == name; };
    budget_.steps(out.properties.size());
    if (std::ranges::none_of(out.properties, has_name))
      out.properties.emplace_back(name, out.further(name));
  }
  // OpenAPI's keyword for null in addition to the type.
  if (const auto nullable = schema.find("nullable");
      nullable != schema.end() && *nullable == true && schema.contains("type"))
    out.types |= kNullType;
  hold(out);
  return out;
}

// A name that matches several patterns has the schemas of all of them, and its property's.
void SchemaForms::read_patterns(const Json& patterns, const std::string& at,
                                SchemaAlternative& out) {
  require_kind(patterns.is_object(), "an object of schemas", at);
  for (const auto& [expression, schema] : patterns.items()) {
    const std::string place = at + pointer_part(expression);
    const SchemaNames one{pattern(expression, true, place), {number(schema, place)}};
    for (auto& [name, set] : out.properties)
      if (one.names->accepts(name)) set = united(set, one.schema);
    out.patterned = united(out.patterned, {}, {one}, {}, budget_);
  }
}

std::shared_ptr<const SchemaValues> SchemaForms::values_of(const Json& value, bool is_list,
                                                           const std::string& at) {
  auto& known = values_[&value];
  if (known) return known;
  check_exact(value, at);
  SchemaValues values;
  const auto add = [&](const Json& one) {
    values.list.push_back({&one, weight_of(one)});
    values.weight += values.list.back().weight;
  };
  if (is_list)
    for (const Json& one : value) add(one);
  else
    add(value);
  budget_.steps(values.weight);
  values.held =
      HeldBytes(budget_, sizeof values + values.list.capacity() * sizeof(SchemaValues::Value));
  return known = std::make_shared<const SchemaValues>(std::move(values));
}

std::shared_ptr<const SchemaValues> SchemaForms::values_in_both(
    const std::shared_ptr<const SchemaValues>& a, const std::shared_ptr<const SchemaValues>& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  budget_.steps(a->weight * b->list.size());
  SchemaValues both;
  for (const SchemaValues::Value& value : a->list) {
    const auto is_it = [&value](const SchemaValues::Value& other) {
      return same_value(*other.json, *value.json);
    };
    if (std::ranges::none_of(b->list, is_it)) continue;
    both.list.push_back(value);
    both.weight += value.weight;
  }
  both.held = HeldBytes(budget_, sizeof both + both.list.capacity() * sizeof(SchemaValues::Value));
  return std::make_shared<const SchemaValues>(std::move(both));
}

// Keywords of earlier drafts, which many clients' libraries still write.
bool SchemaForms::read_old_keyword(const Json& schema, const std::string& key, const Json& value,
                                   const std::string& at, SchemaAlternative& out) {
  const auto is_tuple = [&schema] {
    return schema.contains("items") && schema["items"].is_array();
  };
  if (key == "items" && is_tuple()) {
    require_kind(!schema.contains("prefixItems"), "a schema in addition to prefixItems", at);
    return read_array_keyword("prefixItems", value, at, out);
  }
  if (key == "additionalItems" && is_tuple()) return read_array_keyword("items", value, at, out);
  const bool low = key == "exclusiveMinimum";
  if (!value.is_boolean() || (!low && key != "exclusiveMaximum")) return false;
  if (!value.get<bool>()) return true;
  const char* const bound = low ? "minimum" : "maximum";
  require_kind(schema.contains(bound), std::string("a number, or ") + bound + " beside it", at);
  return read_number_keyword(key, schema[bound], at, out);
}

void SchemaForms::read_keyword(const std::string& key, const Json& value, const std::string& at,
                               SchemaAlternative& out) {
  if (key == "type") {
    out.types = 0;
    if (value.is_array())
      for (const Json& one : value) out.types |= type_named(one, at);
    else
      out.types = type_named(value, at);
    require_kind(out.types != 0, "at least one type", at);
  } else if (key == "enum" || key == "const") {
    if (key == "enum") require_kind(value.is_array() && !value.empty(), "a list of values", at);
    out.values = values_in_both(values_of(value, key == "enum", at), out.values);
  } else if (!read_number_keyword(key, value, at, out) &&
             !read_string_keyword(key, value, at, out) &&
             !read_array_keyword(key, value, at, out) &&
             !read_object_keyword(key, value, at, out)) {
    refuse_schema("keyword " + key + " is not supported", at);
  }
}

bool SchemaForms::read_number_keyword(const std::string& key, const Json& value,
                                      const std::string& at, SchemaAlternative& out) {
  const bool low = key == "minimum" || key == "exclusiveMinimum";
  const bool high = key == "maximum" || key == "exclusiveMaximum";
  const bool step = key == "multipleOf";
  if (!low && !high && !step) return false;
  require_kind(value.is_number(), "a number", at);
  if (step) {
    require_kind(value.get<double>() > 0, "a number above 0", at);
    NumberBounds bounds;
    if (!bounds.set_step(Decimal::of(value)))
      refuse_schema("multipleOf is not supported for this number", at);
    out.bounds = tighter(out.bounds, bounds);
    return true;
  }
  const NumberBounds::Bound bound{Decimal::of(value), key.starts_with("exclusive")};
  NumberBounds bounds;
  (low ? bounds.low : bounds.high) = bound;
  out.bounds = tighter(out.bounds, bounds);
  return true;
}

bool SchemaForms::read_string_keyword(const std::string& key, const Json& value,
                                      const std::string& at, SchemaAlternative& out) {
  if (key == "minLength") {
    out.least_length = count_of(value, at);
  } else if (key == "maxLength") {
    out.most_length = count_of(value, at);
  } else if (key == "pattern" || key == "format") {
    require_kind(value.is_string(), "a text", at);
    const auto& text = value.get_ref<const std::string&>();
    if (key == "pattern") {
      out.patterns.push_back(pattern(text, true, at));
    } else if (const auto format = formats().find(text); format != formats().end()) {
      out.patterns.push_back(pattern(format->second, false, at));
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

bool SchemaForms::read_array_keyword(const std::string& key, const Json& value,
                                     const std::string& at, SchemaAlternative& out) {
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
  } else if (key == "uniqueItems") {
    require_kind(value.is_boolean(), "true or false", at);
    out.unique_items = value.get<bool>();
  } else {
    return false;
  }
  return true;
}

bool SchemaForms::read_object_keyword(const std::string& key, const Json& value,
                                      const std::string& at, SchemaAlternative& out) {
  if (key == "properties") {
    require_kind(value.is_object(), "an object of schemas", at);
    for (const auto& [name, schema] : value.items())
      out.properties.emplace_back(name, SchemaSet{number(schema, at + pointer_part(name))});
  } else if (key == "required") {
    require_kind(value.is_array(), "a list of names", at);
    for (const Json& name : value) {
      require_kind(name.is_string(), "a list of names", at);
      budget_.steps(1 + out.required.size());
      const auto& text = name.get_ref<const std::string&>();
      if (std::ranges::count(out.required, text) == 0) out.required.push_back(text);
    }
  } else if (key == "additionalProperties") {
    out.additional = {number(value, at)};
  } else if (key == "propertyNames") {
    out.names = {number(value, at)};
  } else if (key == "minProperties") {
    out.least_members = count_of(value, at);
  } else if (key == "maxProperties") {
    out.most_members = count_of(value, at);
  } else {
    return false;
  }
  return true;
}

}  // namespace cria
