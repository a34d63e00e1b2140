#include "engine/constrain/schema.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "engine/constrain/token_masks.h"
#include "model/file/json.h"

namespace cria {
namespace {

// True if a value satisfies all of the set.
bool schema_has_value(SchemaForms& forms, const SchemaSet& set, Budget& budget) {
  AutomatonBuilder builder(budget);
  JsonText json(builder);
  SchemaRules rules(forms, json);
  const RuleId root = builder.rule();
  rules.value(builder.start(root), set, builder.end(root));
  rules.complete();
  return builder.productive()[root];
}

// The members that all values of a set have, and that are of an enum, with their values as JSON.
using Discriminators = std::map<std::string_view, std::set<std::string>>;

// Empty if values other than objects satisfy the set.
Discriminators discriminators_of(SchemaForms& forms, const SchemaSet& set, Budget& budget) {
  Discriminators out;
  bool first = true;
  for (const SchemaAlternative& one : forms.alternatives(set)) {
    if (one.types != kObjectType || one.values) return {};
    Discriminators own;
    for (const auto& [name, member] : one.properties) {
      budget.steps(8 + one.required.size());
      if (std::ranges::count(one.required, name) == 0) continue;
      std::set<std::string> values;
      for (const SchemaAlternative& value : forms.alternatives(member)) {
        if (!value.values) {
          values.clear();
          break;
        }
        budget.steps(value.values->weight);
        for (const SchemaValues::Value& each : value.values->list) values.insert(each.json->dump());
      }
      if (values.empty()) continue;
      if (first)
        own.emplace(name, std::move(values));
      else if (const auto found = out.find(name); found != out.end())
        own.emplace(name, std::move(values)).first->second.merge(found->second);
    }
    out = std::move(own);
    first = false;
  }
  return out;
}

// True if a member tells the two apart. Equal values may differ as JSON texts, so only strings do.
bool are_apart(const Discriminators& a, const Discriminators& b, Budget& budget) {
  const auto are_strings = [](const std::set<std::string>& values) {
    return std::ranges::all_of(values, [](const std::string& text) { return text[0] == '"'; });
  };
  for (const auto& [name, values] : a) {
    budget.steps(4);
    const auto other = b.find(name);
    if (other == b.end() || !are_strings(values) || !are_strings(other->second)) continue;
    budget.steps(values.size());
    if (std::ranges::none_of(values, [&](const auto& v) { return other->second.contains(v); }))
      return true;
  }
  return false;
}

// Throws ConstraintError where a value may satisfy two alternatives of a oneOf. Asking may read
// further ones.
void check_exclusive(SchemaForms& forms, Budget& budget) {
  for (std::size_t n = 0; n < forms.exclusive().size(); ++n) {
    const SchemaExclusion one = forms.exclusive()[n];
    std::vector<Discriminators> members;
    for (const SchemaSet& schema : one.schemas)
      members.push_back(discriminators_of(forms, schema, budget));
    for (std::size_t i = 0; i < one.schemas.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (are_apart(members[i], members[j], budget)) continue;
        if (!schema_has_value(forms, united(one.schemas[j], one.schemas[i]), budget)) continue;
        const std::string pair = std::to_string(j) + " and " + std::to_string(i);
        throw ConstraintError("schema: alternatives that overlap are not supported: " + pair,
                              one.place);
      }
    }
  }
}

Json parse_schema(std::string_view text) {
  try {
    return parse_json(text, "schema", {.bytes = kMaxConstraintText, .depth = 128});
  } catch (const Error& error) {
    throw ConstraintError(error.what(), "");
  }
}

}  // namespace

void SchemaRules::value(NodeId from, const SchemaSet& set, NodeId to) {
  if (set.empty()) return json_.any_value(from, to);
  const auto [found, is_new] = rules_.try_emplace(set, 0);
  if (is_new) {
    found->second = builder_.rule();
    order_.push_back({found->second, set});
    builder_.budget().bytes(2 * set.size() * sizeof(std::uint32_t) + 64);
  }
  builder_.call(from, found->second, to);
}

void SchemaRules::complete() {
  for (; completed_ < order_.size(); ++completed_) {
    const Rule rule = order_[completed_];
    for (const SchemaAlternative& one : forms_.alternatives(rule.set)) {
      if (!one.values && (one.types & kNumberType) != 0 && one.bounds.beyond_digits())
        refuse_schema("numbers of more than 16 digits are not supported", forms_.place(rule.set));
      alternative(builder_.start(rule.id), one, builder_.end(rule.id));
    }
  }
}

bool SchemaRules::is_false(const SchemaSet& set) {
  return !set.empty() && forms_.alternatives(set).empty();
}

void SchemaRules::check_values() const {
  const std::vector<bool> productive = builder_.productive();
  for (auto rule = order_.rbegin(); rule != order_.rend(); ++rule) {
    if (productive[rule->id]) continue;
    const std::string place = forms_.place(rule->set);
    throw ConstraintError("schema: no value satisfies it", place.empty() ? "/" : place);
  }
}

void SchemaRules::alternative(NodeId from, const SchemaAlternative& one, NodeId to) {
  if (one.values) {
    SchemaAlternative rest = one;  // avoids looking up each value in the list of values
    rest.values.reset();
    for (const SchemaValues::Value& value : one.values->list) {
      builder_.budget().steps(32);
      if (forms_.satisfies(*value.json, rest)) json_.value(from, *value.json, to);
    }
    return;
  }
  if ((one.types & kNullType) != 0) builder_.text(from, "null", to);
  if ((one.types & kBooleanType) != 0) {
    builder_.text(from, "true", to);
    builder_.text(from, "false", to);
  }
  const bool fractions = (one.types & kFractionType) != 0;
  if ((one.types & kNumberType) != 0) {
    if (fractions && one.bounds.none())
      json_.any_number(from, to);
    else
      number_edges(builder_, from, one.bounds, !fractions, to);
  }
  if ((one.types & kStringType) != 0) string(from, one, to);
  if ((one.types & kArrayType) != 0) array(from, one, to);
  if ((one.types & kObjectType) != 0) object(from, one, to);
}

void SchemaRules::string(NodeId from, const SchemaAlternative& one, NodeId to) {
  const bool any_length = one.least_length == 0 && one.most_length == kNoLimit;
  if (one.patterns.empty() && any_length) return json_.any_string(from, to);
  const NodeId inside = builder_.node(), close = builder_.node();
  builder_.edge(from, '"', '"', inside);
  builder_.edge(close, '"', '"', to);
  if (!one.patterns.empty())
    return pattern_text(inside, *one.patterns.front(), std::span(one.patterns).subspan(1), one,
                        close);
  NodeId at = inside;
  const bool endless = one.most_length == kNoLimit;
  for (std::size_t i = 0; i < (endless ? one.least_length : one.most_length); ++i) {
    if (i >= one.least_length) builder_.silent(at, close);
    const NodeId next = builder_.node();
    json_.any_char(at, next);
    at = next;
  }
  if (one.least_length > one.most_length) return;
  builder_.silent(at, close);
  if (endless) json_.any_char(at, at);
}

// Within quotes: one of the DFA's texts that has these patterns, too, and the length.
void SchemaRules::pattern_text(NodeId from, CharDfa dfa,
                               std::span<const std::shared_ptr<const CharDfa>> patterns,
                               const SchemaAlternative& one, NodeId to) {
  for (const auto& pattern : patterns) dfa = product(dfa, *pattern, builder_.budget());
  text_edges(builder_, from, with_length(dfa, one.least_length, one.most_length, builder_.budget()),
             true, to);
}

// Nodes: before an item, behind it. What follows the last that differs from the next is a loop.
void SchemaRules::array(NodeId from, const SchemaAlternative& one, NodeId to) {
  if (one.prefix.empty() && one.items.empty() && one.least_items == 0 &&
      one.most_items == kNoLimit && !one.unique_items)
    return json_.any_array(from, to);
  if (one.unique_items && one.most_items > 1) return unique_array(from, one, to);
  const NodeId open = builder_.node(), close = builder_.node();
  builder_.edge(from, '[', '[', open);
  builder_.edge(close, ']', ']', to);
  const bool more = !is_false(one.items);
  const std::size_t most = more ? one.most_items : std::min(one.most_items, one.prefix.size());
  const std::size_t counted =
      most == kNoLimit ? std::max(one.least_items, one.prefix.size()) : most;
  NodeId before = builder_.node();
  json_.space(open, before);
  if (one.least_items == 0) json_.space(open, close);  // not from `before`, where a comma may lead
  for (std::size_t i = 0; i < counted; ++i) {
    const NodeId behind = builder_.node();
    const SchemaSet& item = i < one.prefix.size() ? one.prefix[i] : one.items;
    if (is_false(item)) return;
    value(before, item, behind);
    if (i + 1 >= one.least_items) json_.space(behind, close);
    before = builder_.node();
    if (i + 1 < counted || most == kNoLimit) json_.comma(behind, before);
  }
  if (most != kNoLimit) return;
  const NodeId behind = builder_.node();
  value(before, one.items, behind);
  json_.space(behind, close);
  json_.comma(behind, before);
}

// A node for each set of values that have come.
void SchemaRules::unique_array(NodeId from, const SchemaAlternative& one, NodeId to) {
  constexpr std::size_t kMaxValues = 8;
  std::vector<const Json*> values;
  for (const SchemaAlternative& item : forms_.alternatives(one.items)) {
    if (!item.values || !one.prefix.empty() || item.values->list.size() > kMaxValues)
      refuse_schema("uniqueItems is supported only for items of an enum with at most 8 values",
                    forms_.place(one.items));
    for (const SchemaValues::Value& value : item.values->list) {
      const auto is_it = [&](const Json* other) { return same_value(*other, *value.json); };
      if (std::ranges::none_of(values, is_it) && forms_.satisfies(*value.json, item))
        values.push_back(value.json);
    }
  }
  if (values.size() > kMaxValues)
    refuse_schema("uniqueItems is supported only for items of an enum with at most 8 values",
                  forms_.place(one.items));
  const NodeId open = builder_.node(), close = builder_.node();
  builder_.edge(from, '[', '[', open);
  builder_.edge(close, ']', ']', to);
  std::vector<NodeId> behind(std::size_t{1} << values.size());
  for (NodeId& node : behind) node = builder_.node();
  for (std::size_t set = 0; set < behind.size(); ++set) {
    const auto count = static_cast<std::size_t>(std::popcount(set));
    const NodeId at = set == 0 ? open : behind[set], before = builder_.node();
    if (count >= one.least_items) json_.space(at, close);
    if (count >= one.most_items) continue;
    if (set == 0)
      json_.space(at, before);
    else
      json_.comma(at, before);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (const std::size_t bit = std::size_t{1} << i; (set & bit) == 0)
        json_.value(before, *values[i], behind[set | bit]);
  }
}

// States count the members so far, up to the last count that matters. before[i]: a member must
// come, property i or a later one; behind[i]: property i-1 or an earlier one has come.
void SchemaRules::object(NodeId from, const SchemaAlternative& one, NodeId to) {
  std::vector<std::pair<std::string_view, SchemaSet>> named;
  std::vector<bool> required, possible;
  for (const auto& property : one.properties) {
    builder_.budget().steps(16 + one.required.size());
    const bool must = std::ranges::count(one.required, property.first) != 0;
    const bool may = !is_false(property.second) && may_be_name(property.first, one);
    if (!must && !may) continue;
    named.push_back(property);
    possible.push_back(may);
    required.push_back(must);
  }
  const bool limited = one.most_members != kNoLimit;
  const std::size_t min = one.least_members > one.required.size() ? one.least_members : 0;
  if (one.properties.empty() && one.patterned.empty() && one.additional.empty() &&
      one.names.empty() && !limited && min == 0)
    return json_.any_object(from, to);
  const bool further = has_further(one);
  if (min > 1 && further)  // names of further members may repeat
    refuse_schema("minProperties above 1 is supported only without additional properties",
                  forms_.place(one.additional));
  const std::size_t n = named.size();
  const std::size_t last_count = !limited  ? min
                                 : further ? one.most_members
                                           : std::min(one.most_members, n);
  const auto last = std::find(required.rbegin(), required.rend(), true);
  const auto least =
      static_cast<std::size_t>(required.rend() - last);  // one past the last that must come
  const NodeId open = builder_.node(), close = builder_.node();
  builder_.edge(from, '{', '{', open);
  builder_.edge(close, '}', '}', to);
  std::vector<std::vector<NodeId>> before(last_count + 1), behind(last_count + 1);
  for (std::size_t count = 0; count <= last_count; ++count) {
    for (std::size_t i = 0; i <= n; ++i) {
      before[count].push_back(builder_.node());
      behind[count].push_back(builder_.node());
    }
  }
  json_.space(open, before[0][0]);
  if (least == 0 && min == 0) json_.space(open, close);
  for (std::size_t count = 0; count <= last_count; ++count) {
    const bool more = !limited || count < last_count;
    const std::size_t next = std::min(count + 1, last_count);
    for (std::size_t i = 0; i <= n; ++i) {
      if (i > 0 || further) {
        if (i >= least && count >= min) json_.space(behind[count][i], close);
        if (more && (i < n || further)) json_.comma(behind[count][i], before[count][i]);
      }
      if (i == n || !more) continue;
      const NodeId key = builder_.node(), begin = builder_.node();
      builder_.text(before[count][i], Json(std::string(named[i].first)).dump(), key);
      json_.colon(key, begin);
      if (possible[i]) value(begin, named[i].second, behind[next][i + 1]);
      if (!required[i]) builder_.silent(before[count][i], before[count][i + 1]);
    }
    if (more && further) further_members(before[count][n], one, behind[next][n]);
  }
}

void SchemaRules::further_members(NodeId from, const SchemaAlternative& one, NodeId to) {
  std::vector<std::string_view> taken;
  for (const auto& [name, set] : one.properties) taken.push_back(name);
  CharDfa free = all_but(taken, builder_.budget());
  for (const SchemaNames& some : one.patterned) {
    members_named(from, product(free, *some.names, builder_.budget()), some.schema, one, to);
    free = product(free, complement(*some.names, builder_.budget()), builder_.budget());
  }
  members_named(from, free, one.additional, one, to);
}

void SchemaRules::members_named(NodeId from, const CharDfa& names, const SchemaSet& schema,
                                const SchemaAlternative& one, NodeId to) {
  if (is_false(schema)) return;
  const NodeId key = builder_.node(), end = builder_.node(), named = builder_.node(),
               begin = builder_.node();
  builder_.edge(from, '"', '"', key);
  for (const SchemaAlternative& name : forms_.alternatives(one.names)) {
    if ((name.types & kStringType) == 0) continue;
    if (name.values)
      name_texts(key, names, name, end);
    else
      pattern_text(key, names, name.patterns, name, end);
  }
  builder_.edge(end, '"', '"', named);
  json_.colon(named, begin);
  value(begin, schema, to);
}

bool SchemaRules::has_further(const SchemaAlternative& one) {
  return !is_false(one.additional) || std::ranges::any_of(one.patterned, [&](const auto& some) {
    return !is_false(some.schema);
  });
}

bool SchemaRules::may_be_name(std::string_view text, const SchemaAlternative& one) {
  return one.names.empty() || forms_.satisfies(Json(std::string(text)), one.names);
}

// Within quotes: the values that a name of further members may be.
void SchemaRules::name_texts(NodeId from, const CharDfa& names, const SchemaAlternative& name,
                             NodeId to) {
  SchemaAlternative rest = name;  // as in alternative()
  rest.values.reset();
  for (const SchemaValues::Value& value : name.values->list) {
    builder_.budget().steps(32);
    if (!value.json->is_string() || !names.accepts(value.json->get_ref<const std::string&>()) ||
        !forms_.satisfies(*value.json, rest))
      continue;
    const std::string quoted = value.json->dump();
    builder_.text(from, quoted.substr(1, quoted.size() - 2), to);
  }
}

RuleId schema_rule(std::string_view schema, AutomatonBuilder& builder) {
  const Json parsed = parse_schema(schema);
  SchemaForms forms(parsed, builder.budget());
  JsonText json(builder);
  SchemaRules rules(forms, json);
  const RuleId root = builder.rule();
  rules.value(builder.start(root), forms.root(), builder.end(root));
  rules.complete();
  check_exclusive(forms, builder.budget());
  rules.check_values();
  return root;
}

std::shared_ptr<const Constraint> Constraint::json_schema(std::string_view schema) {
  Budget budget;
  AutomatonBuilder builder(budget);
  const RuleId root = schema_rule(schema, builder);
  return make_constraint(builder, root, "schema");
}

}  // namespace cria
