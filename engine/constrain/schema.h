// Reading JSON Schema: errors, the normal form, and the rules that write matching values.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constrain/code_points.h"
#include "engine/constrain/constraint_error.h"
#include "engine/constrain/json_text.h"

namespace cria {

/// A key as a part of a JSON pointer (RFC 6901).
inline std::string pointer_part(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~' || c == '/')
      out += c == '~' ? "~0" : "~1";
    else
      out += c;
  }
  return out;
}

/// For what is not supported; place: a JSON pointer.
[[noreturn]] inline void refuse_schema(const std::string& what, const std::string& place) {
  throw ConstraintError("schema: " + what, place.empty() ? "/" : place);
}

/// Throws for an invalid schema.
[[noreturn]] inline void refuse_malformed_schema(const std::string& what,
                                                 const std::string& place) {
  throw ConstraintError("schema: " + what, place.empty() ? "/" : place, true);
}

inline void require_kind(bool holds, std::string_view kind, const std::string& at) {
  if (!holds) refuse_malformed_schema("expected " + std::string(kind), at);
}

/// Keywords that hold other schemas of the same value.
inline bool is_combination(std::string_view key) {
  return key == "$ref" || key == "anyOf" || key == "oneOf" || key == "allOf" || key == "not";
}

/// Returns the steps to copy or compare a text, in addition to the steps for a short one.
inline std::size_t steps_of_text(std::size_t bytes) { return bytes / 32; }

// JSON Schema in a normal form: a value satisfies one of several alternatives, each a list of what
// holds together.

/// Subschemas that all hold, by their numbers, ascending; none: any value.
using SchemaSet = std::vector<std::uint32_t>;

enum SchemaType : unsigned {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,  ///< numbers that are not integers
  kNumberType = kIntegerType | kFractionType,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAnyType = 127,
};

/// The values of an enum, in the schema's JSON.
struct SchemaValues {
  struct Value {
    const Json* json;
    std::size_t weight;  ///< steps that comparing it takes
  };
  std::vector<Value> list;
  std::size_t weight = 0;  ///< total
  HeldBytes held;
};

/// Names that share a schema.
struct SchemaNames {
  std::shared_ptr<const CharDfa> names;
  SchemaSet schema;
};

/// Names are those in the schema's JSON, and values are shared: there may be many that differ in
/// little.
struct SchemaAlternative {
  unsigned types = kAnyType;
  std::shared_ptr<const SchemaValues> values;  // null: any
  NumberBounds bounds;
  std::size_t least_length = 0, most_length = kNoLimit;  // for strings
  std::vector<std::shared_ptr<const CharDfa>> patterns;
  std::vector<SchemaSet> prefix;  // for arrays
  SchemaSet items;                // behind the prefix
  std::size_t least_items = 0, most_items = kNoLimit;
  bool unique_items = false;
  std::vector<std::pair<std::string_view, SchemaSet>> properties;
  std::vector<std::string_view> required;
  std::vector<SchemaNames> patterned;  // other members than properties, by pattern; apart
  SchemaSet additional;                // all others
  SchemaSet names;                     // names of all members, as texts
  std::size_t least_members = 0, most_members = kNoLimit;
  HeldBytes held;

  /// Returns the schemas of a member that is not in `properties`.
  [[nodiscard]] const SchemaSet& further(std::string_view name) const {
    for (const SchemaNames& some : patterned)
      if (some.names->accepts(name)) return some.schema;
    return additional;
  }
};

/// Grows without copies.
using SchemaAlternatives = std::deque<SchemaAlternative>;

/// The alternatives of a oneOf: no value may satisfy two of them.
struct SchemaExclusion {
  std::string place;
  std::vector<SchemaSet> schemas;
};

/// Throws ConstraintError with the place of what is not supported.
class SchemaForms {
 public:
  /// The schema must outlive it.
  SchemaForms(const Json& root, Budget& budget);

  /// The whole schema.
  [[nodiscard]] SchemaSet root() const { return {0}; }
  /// The alternatives that satisfy all of the set; empty if no value does.
  SchemaAlternatives alternatives(const SchemaSet& set);
  bool satisfies(const Json& value, const SchemaSet& set);
  bool satisfies(const Json& value, const SchemaAlternative& alternative);
  /// All exclusions read so far; the caller keeps the schema alive.
  [[nodiscard]] const std::vector<SchemaExclusion>& exclusive() const { return exclusive_; }
  /// "/properties/a" of the first of them.
  [[nodiscard]] std::string place(const SchemaSet& set) const;

 private:
  struct Subschema {
    const Json* json;
    std::string place;
  };
  using Alternatives = SchemaAlternatives;

  std::uint32_t number(const Json& schema, const std::string& place);
  Alternatives read(std::uint32_t id);
  SchemaAlternative read_keywords(const Json& schema, const std::string& place);
  void read_patterns(const Json& patterns, const std::string& at, SchemaAlternative& out);
  bool read_old_keyword(const Json& schema, const std::string& key, const Json& value,
                        const std::string& at, SchemaAlternative& out);
  void read_keyword(const std::string& key, const Json& value, const std::string& at,
                    SchemaAlternative& out);
  bool read_number_keyword(const std::string& key, const Json& value, const std::string& at,
                           SchemaAlternative& out);
  bool read_string_keyword(const std::string& key, const Json& value, const std::string& at,
                           SchemaAlternative& out);
  bool read_array_keyword(const std::string& key, const Json& value, const std::string& at,
                          SchemaAlternative& out);
  bool read_object_keyword(const std::string& key, const Json& value, const std::string& at,
                           SchemaAlternative& out);
  std::uint32_t referred(const Json& ref, const std::string& at);
  std::uint32_t find_referred(const Json& ref, const std::string& at);
  void name_schemas(const Json& in, const std::string& place, std::vector<std::string> scope);
  Alternatives any_of(const Json& list, const std::string& at);
  Alternatives one_of(const Json& list, const std::string& at);
  Alternatives none_of(const Json& schema, const std::string& at);
  SchemaAlternative merged(const SchemaAlternative& a, const SchemaAlternative& b);
  std::shared_ptr<const CharDfa> pattern(const std::string& expression, bool anywhere,
                                         const std::string& at);
  std::shared_ptr<const SchemaValues> values_of(const Json& value, bool is_list,
                                                const std::string& at);
  std::shared_ptr<const SchemaValues> values_in_both(const std::shared_ptr<const SchemaValues>& a,
                                                     const std::shared_ptr<const SchemaValues>& b);
  Alternatives both(const Alternatives& a, const Alternatives& b);
  void hold(SchemaAlternative& one);

  const Json& root_;
  Budget& budget_;
  std::vector<Subschema> schemas_;
  std::map<const Json*, std::uint32_t> numbers_;
  std::map<std::string, std::shared_ptr<const CharDfa>> patterns_;
  std::map<const Json*, std::shared_ptr<const SchemaValues>> values_;
  std::map<const Json*, std::uint32_t> referred_;  // by the reference
  std::map<std::string, Subschema> named_;
  std::vector<std::string> parts_;  // places of subschemas with an $id, with a slash
  std::set<std::uint32_t> open_;    // being read
  std::set<const Json*> one_ofs_;   // already in exclusive_
  std::vector<SchemaExclusion> exclusive_;
};

/// Both sets hold.
SchemaSet united(const SchemaSet& a, const SchemaSet& b);
/// The names of either list, with what holds for them; beside_a holds for names that are not in a.
std::vector<SchemaNames> united(const std::vector<SchemaNames>& a, const SchemaSet& beside_a,
                                const std::vector<SchemaNames>& b, const SchemaSet& beside_b,
                                Budget& budget);

// The rules of an automaton that write what satisfies a schema.

class SchemaRules {
 public:
  SchemaRules(SchemaForms& forms, JsonText& json)
      : forms_(forms), json_(json), builder_(json.builder()) {}

  /// A value that satisfies them all.
  void value(NodeId from, const SchemaSet& set, NodeId to);
  /// Makes the rules that were called. After the last value().
  void complete();
  /// Throws ConstraintError with the place of a subschema that no value satisfies.
  void check_values() const;

 private:
  struct Rule {
    RuleId id;
    SchemaSet set;
  };
  void alternative(NodeId from, const SchemaAlternative& one, NodeId to);
  void string(NodeId from, const SchemaAlternative& one, NodeId to);
  void array(NodeId from, const SchemaAlternative& one, NodeId to);
  void unique_array(NodeId from, const SchemaAlternative& one, NodeId to);
  void object(NodeId from, const SchemaAlternative& one, NodeId to);
  void further_members(NodeId from, const SchemaAlternative& one, NodeId to);
  void members_named(NodeId from, const CharDfa& names, const SchemaSet& schema,
                     const SchemaAlternative& one, NodeId to);
  bool has_further(const SchemaAlternative& one);
  void name_texts(NodeId from, const CharDfa& names, const SchemaAlternative& name, NodeId to);
  void pattern_text(NodeId from, CharDfa dfa,
                    std::span<const std::shared_ptr<const CharDfa>> patterns,
                    const SchemaAlternative& one, NodeId to);
  bool may_be_name(std::string_view text, const SchemaAlternative& one);
  /// True if the set is `false`, or is seen at once to allow nothing.
  bool is_false(const SchemaSet& set);

  SchemaForms& forms_;
  JsonText& json_;
  AutomatonBuilder& builder_;
  std::map<SchemaSet, RuleId> rules_;
  std::vector<Rule> order_;
  std::size_t completed_ = 0;
};

/// The rule of what satisfies a schema (JSON text). Throws ConstraintError as
/// Constraint::json_schema does.
RuleId schema_rule(std::string_view schema, AutomatonBuilder& builder);

}  // namespace cria
