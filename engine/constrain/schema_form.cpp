#include "engine/constrain/schema.h"

#include <algorithm>
#include <charconv>

#include "engine/constrain/json_text.h"

namespace cria {
namespace {

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

// About; without what is shared.
std::size_t bytes_of(const SchemaAlternative& one) {
  constexpr std::size_t kBlock = 16;  // an allocation's overhead in bytes
  const auto of_list = [](const auto& list) {
    return list.capacity() == 0 ? 0 : kBlock + list.capacity() * sizeof(list[0]);
  };
  std::size_t bytes = sizeof one + of_list(one.patterns) + of_list(one.prefix) +
                      of_list(one.items) + of_list(one.properties) + of_list(one.required) +
                      of_list(one.patterned) + of_list(one.additional) + of_list(one.names);
  for (const SchemaSet& set : one.prefix) bytes += of_list(set);
  for (const auto& [name, set] : one.properties) bytes += of_list(set);
  return bytes;
}

// The names of a that are in none of b.
CharDfa names_outside(const CharDfa& a, const std::vector<SchemaNames>& b, Budget& budget) {
  CharDfa out = a;
  for (const SchemaNames& other : b) out = product(out, complement(*other.names, budget), budget);
  return out;
}

}  // namespace

std::vector<SchemaNames> united(const std::vector<SchemaNames>& a, const SchemaSet& beside_a,
                                const std::vector<SchemaNames>& b, const SchemaSet& beside_b,
                                Budget& budget) {
  std::vector<SchemaNames> out;
  const auto add = [&](CharDfa names, SchemaSet schema) {
    if (!names.states.empty())
      out.push_back({std::make_shared<const CharDfa>(std::move(names)), std::move(schema)});
  };
  for (const SchemaNames& x : a) {
    for (const SchemaNames& y : b)
      add(product(*x.names, *y.names, budget), united(x.schema, y.schema));
    add(names_outside(*x.names, b, budget), united(x.schema, beside_b));
  }
  for (const SchemaNames& y : b)
    add(names_outside(*y.names, a, budget), united(y.schema, beside_a));
  return out;
}

// Intersects two alternatives, except their values.
SchemaAlternative SchemaForms::merged(const SchemaAlternative& a, const SchemaAlternative& b) {
  SchemaAlternative out = a;
  out.types &= b.types;
  out.bounds = tighter(a.bounds, b.bounds);
  out.least_length = std::max(a.least_length, b.least_length);
  out.most_length = std::min(a.most_length, b.most_length);
  for (const auto& pattern : b.patterns)
    if (std::ranges::count(out.patterns, pattern) == 0) out.patterns.push_back(pattern);
  out.least_items = std::max(a.least_items, b.least_items);
  out.most_items = std::min(a.most_items, b.most_items);
  out.unique_items = a.unique_items || b.unique_items;
  out.least_members = std::max(a.least_members, b.least_members);
  out.most_members = std::min(a.most_members, b.most_members);
  out.prefix.resize(std::max(a.prefix.size(), b.prefix.size()));
  for (std::size_t i = 0; i < out.prefix.size(); ++i)
    out.prefix[i] = united(i < a.prefix.size() ? a.prefix[i] : a.items,
                           i < b.prefix.size() ? b.prefix[i] : b.items);
  out.items = united(a.items, b.items);
  const auto schema_in = [](const SchemaAlternative& one,
                            std::string_view name) -> const SchemaSet* {
    const auto found =
        std::ranges::find(one.properties, name, [](const auto& p) { return p.first; });
    return found == one.properties.end() ? nullptr : &found->second;
  };
  for (auto& [name, set] : out.properties) {
    const SchemaSet* const other = schema_in(b, name);
    set = united(set, other != nullptr ? *other : b.further(name));
  }
  for (const auto& [name, set] : b.properties)
    if (schema_in(a, name) == nullptr)
      out.properties.emplace_back(name, united(set, a.further(name)));
  for (const std::string_view name : b.required)
    if (std::ranges::count(out.required, name) == 0) out.required.push_back(name);
  if (!a.patterned.empty() || !b.patterned.empty())
    out.patterned = united(a.patterned, a.additional, b.patterned, b.additional, budget_);
  out.additional = united(a.additional, b.additional);
  out.names = united(a.names, b.names);
  return out;
}

SchemaForms::SchemaForms(const Json& root, Budget& budget) : root_(root), budget_(budget) {
  number(root, "");
}

std::string SchemaForms::place(const SchemaSet& set) const {
  return set.empty() ? "" : schemas_[set.front()].place;
}

std::uint32_t SchemaForms::number(const Json& schema, const std::string& place) {
  require_kind(schema.is_object() || schema.is_boolean(), "an object, true or false", place);
  const auto [found, is_new] =
      numbers_.try_emplace(&schema, static_cast<std::uint32_t>(schemas_.size()));
  budget_.steps(16 + steps_of_text(place.size()));
  if (!is_new) return found->second;
  budget_.bytes(sizeof(Subschema) + 64 + place.size());
  schemas_.push_back({&schema, place});
  return found->second;
}

// Counts the memory of a new alternative.
void SchemaForms::hold(SchemaAlternative& one) {
  const std::size_t bytes = bytes_of(one);
  budget_.steps(bytes / 64);
  one.held = HeldBytes(budget_, bytes);
}

SchemaForms::Alternatives SchemaForms::both(const Alternatives& a, const Alternatives& b) {
  Alternatives out;
  for (const SchemaAlternative& x : a) {
    for (const SchemaAlternative& y : b) {
      budget_.steps(
          64 + 8 * (x.properties.size() + y.properties.size() + x.prefix.size() + y.prefix.size()) +
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
  const Json& schema = *schemas_[id].json;
  const std::string place = schemas_[id].place;
  if (schema.is_boolean()) return Alternatives(schema.get<bool>() ? 1 : 0);
  if (open_.contains(id)) refuse_malformed_schema("refers to itself without an end", place);
  constexpr std::size_t kDeepest = 200;  // schemas of one value: references nest them to any depth
  if (open_.size() == kDeepest)
    refuse_schema("alternatives and references are nested too deeply", place);
  open_.insert(id);
  Alternatives out{read_keywords(schema, place)};
  for (const auto& [key, value] : schema.items()) {
    if (!is_combination(key)) continue;
    const std::string at = place + pointer_part(key);
    if (key == "$ref") out = both(out, read(referred(value, at)));
    if (key == "anyOf") out = both(out, any_of(value, at));
    if (key == "oneOf") out = both(out, one_of(value, at));
    if (key == "not") out = both(out, none_of(value, at));
    if (key != "allOf") continue;
    require_kind(value.is_array() && !value.empty(), "a list of schemas", at);
    for (std::size_t i = 0; i < value.size(); ++i)
      out = both(out, read(number(value[i], at + "/" + std::to_string(i))));
  }
  open_.erase(id);
  return out;
}

SchemaForms::Alternatives SchemaForms::any_of(const Json& list, const std::string& at) {
  require_kind(list.is_array() && !list.empty(), "a list of schemas", at);
  Alternatives out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    Alternatives more = read(number(list[i], at + "/" + std::to_string(i)));
    budget_.steps(64 * more.size());
    std::ranges::move(more, std::back_inserter(out));
  }
  return out;
}

// Like anyOf. A later pass checks that no value satisfies two of them.
SchemaForms::Alternatives SchemaForms::one_of(const Json& list, const std::string& at) {
  Alternatives out = any_of(list, at);
  if (!one_ofs_.insert(&list).second) return out;
  budget_.bytes(sizeof(SchemaExclusion) + at.size() + list.size() * (sizeof(SchemaSet) + 16));
  SchemaExclusion exclusion{at, {}};
  for (const Json& one : list) exclusion.schemas.push_back({number(one, at)});
  exclusive_.push_back(std::move(exclusion));
  return out;
}

// Only of {} and true, by which generators of schemas say "never", and of false.
SchemaForms::Alternatives SchemaForms::none_of(const Json& schema, const std::string& at) {
  require_kind(schema.is_object() || schema.is_boolean(), "an object, true or false", at);
  if (schema.is_object() && !schema.empty())
    refuse_schema("keyword not is supported only with {}, true and false", at);
  return Alternatives(schema == false ? 1 : 0);
}

// Subschemas by $id and by $id#$anchor; the whole schema is "", too. scope: the names of the
// schema with an $id that this is a part of.
void SchemaForms::name_schemas(const Json& in, const std::string& place,
                               std::vector<std::string> scope) {
  constexpr std::string_view kData[] = {"enum", "const", "default", "example", "examples"};
  budget_.steps(4 + steps_of_text(place.size()));
  const auto text_of = [&in](const char* key) {
    const auto found = in.is_object() ? in.find(key) : in.end();
    return found != in.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto add = [&](const std::string& name) {
    budget_.bytes(64 + name.size() + place.size());
    named_.try_emplace(name, Subschema{&in, place});
  };
  if (const std::string id = text_of("$id"); !id.empty()) {
    if (!place.empty()) {
      scope.clear();
      parts_.push_back(place + "/");
    }
    add(id);
    scope.push_back(id);
  }
  if (const std::string anchor = text_of("$anchor"); !anchor.empty())
    for (const std::string& id : scope) add(id + "#" + anchor);
  if (in.is_array())
    for (std::size_t i = 0; i < in.size(); ++i)
      name_schemas(in[i], place + "/" + std::to_string(i), scope);
  if (in.is_object())
    for (const auto& [member, value] : in.items())
      if (std::ranges::count(kData, member) == 0)
        name_schemas(value, place + pointer_part(member), scope);
}

// Looked for once: that reads the reference, and a list of definitions.
std::uint32_t SchemaForms::referred(const Json& ref, const std::string& at) {
  const auto known = referred_.find(&ref);
  if (known != referred_.end()) return known->second;
  return referred_[&ref] = find_referred(ref, at);
}

std::uint32_t SchemaForms::find_referred(const Json& ref, const std::string& at) {
  require_kind(ref.is_string(), "a reference", at);
  const auto& text = ref.get_ref<const std::string&>();
  const std::size_t mark = std::min(text.find('#'), text.size());
  const std::string id = text.substr(0, mark),
                    within = text.substr(std::min(mark + 1, text.size()));
  const bool is_anchor = !within.empty() && within[0] != '/';
  if (named_.empty()) {
    named_[""] = {&root_, ""};
    name_schemas(root_, "", {""});
  }
  if (id.empty())
    for (const std::string& part : parts_)
      if (at.starts_with(part))
        refuse_schema("references within a part with its own $id are not supported: " + text, at);
  const auto found = named_.find(is_anchor ? text : id);
  if (found == named_.end())
    refuse_schema("references outside of the schema are not supported: " + text, at);
  auto [target, place] = found->second;
  if (!within.empty() && !is_anchor) {
    try {
      target = &target->at(nlohmann::json_pointer<std::string>(without_percents(within)));
    } catch (const Json::exception&) {
      refuse_malformed_schema("refers to what is not there: " + text, at);
    }
    place += within;
  }
  return number(*target, place);
}

bool SchemaForms::satisfies(const Json& value, const SchemaSet& set) {
  if (set.empty()) return true;
  const Alternatives all = alternatives(set);
  return std::ranges::any_of(all,
                             [&](const SchemaAlternative& one) { return satisfies(value, one); });
}

bool SchemaForms::satisfies(const Json& value, const SchemaAlternative& one) {
  budget_.steps(32 + (one.values ? one.values->weight : 0));
  const auto is_it = [&value](const SchemaValues::Value& other) {
    return same_value(*other.json, value);
  };
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
    const auto length = static_cast<std::size_t>(std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
    return (one.types & kStringType) != 0 && one.least_length <= length &&
           length <= one.most_length &&
           std::ranges::all_of(one.patterns, [&](const auto& dfa) { return dfa->accepts(text); });
  }
  if (value.is_array()) {
    if ((one.types & kArrayType) == 0 || value.size() < one.least_items ||
        value.size() > one.most_items)
      return false;
    for (std::size_t i = 0; i < value.size(); ++i)
      if (!satisfies(value[i], i < one.prefix.size() ? one.prefix[i] : one.items)) return false;
    if (!one.unique_items) return true;
    budget_.steps(value.size() * value.size());
    for (std::size_t i = 0; i < value.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (same_value(value[i], value[j])) return false;
    return true;
  }
  if ((one.types & kObjectType) == 0 || value.size() < one.least_members ||
      value.size() > one.most_members)
    return false;
  budget_.steps(value.size() * (1 + one.required.size() + one.properties.size()));
  for (const std::string_view name : one.required)
    if (!value.contains(name)) return false;
  for (const auto& [name, member] : value.items()) {
    if (!one.names.empty() && !satisfies(Json(name), one.names)) return false;
    const auto found =
        std::ranges::find(one.properties, name, [](const auto& p) { return p.first; });
    if (!satisfies(member, found != one.properties.end() ? found->second : one.further(name)))
      return false;
  }
  return true;
}

SchemaSet united(const SchemaSet& a, const SchemaSet& b) {
  SchemaSet out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

}  // namespace cria
