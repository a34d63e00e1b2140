// JSON Schema in a normal form: a value satisfies one of several alternatives, each a list of what
// holds together.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/constrain/char_dfa.h"
#include "engine/constrain/decimals.h"

namespace cria {

using SchemaJson = nlohmann::ordered_json;
/// Subschemas that all hold, by their numbers, ascending; none: any value.
using SchemaSet = std::vector<std::uint32_t>;

enum SchemaType : unsigned {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,  ///< numbers that are no integers
  kNumberType = kIntegerType | kFractionType,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAnyType = 127,
};

/// Of an enum; in the schema's JSON.
struct SchemaValues {
  struct Value {
    const SchemaJson* json;
    std::size_t weight;  ///< steps that comparing it takes
  };
  std::vector<Value> list;
  std::size_t weight = 0;  ///< of all
  HeldBytes held;
};

/// Names are those in the schema's JSON, and values are shared: there may be many that differ in
/// little.
struct SchemaAlternative {
  unsigned types = kAnyType;
  std::shared_ptr<const SchemaValues> values;  // null: any
  NumberBounds bounds;
  std::size_t least_length = 0, most_length = kNoLimit;  // of strings
  std::vector<std::shared_ptr<const CharDfa>> patterns;
  std::vector<SchemaSet> prefix;  // of arrays
  SchemaSet items;                // behind the prefix
  std::size_t least_items = 0, most_items = kNoLimit;
  std::vector<std::pair<std::string_view, SchemaSet>> properties;
  std::vector<std::string_view> required;
  SchemaSet additional;  // members that are no properties
  SchemaSet names;       // names of all members, as texts
  HeldBytes held;
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
  SchemaForms(const SchemaJson& root, Budget& budget);

  /// The whole schema.
  [[nodiscard]] SchemaSet root() const { return {0}; }
  /// What satisfies them all; nothing: no value does.
  SchemaAlternatives alternatives(const SchemaSet& set);
  bool satisfies(const SchemaJson& value, const SchemaSet& set);
  bool satisfies(const SchemaJson& value, const SchemaAlternative& alternative);
  /// Of all that was read until now; to be held by whoever reads the schema.
  [[nodiscard]] const std::vector<SchemaExclusion>& exclusive() const { return exclusive_; }
  /// "/properties/a" of the first of them.
  [[nodiscard]] std::string place(const SchemaSet& set) const;

 private:
  struct Subschema {
    const SchemaJson* json;
    std::string place;
  };
  using Alternatives = SchemaAlternatives;

  std::uint32_t number(const SchemaJson& schema, const std::string& place);
  Alternatives read(std::uint32_t id);
  SchemaAlternative read_keywords(const SchemaJson& schema, const std::string& place);
  bool read_old_keyword(const SchemaJson& schema, const std::string& key, const SchemaJson& value,
                        const std::string& at, SchemaAlternative& out);
  void read_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                    SchemaAlternative& out);
  bool read_number_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                           SchemaAlternative& out);
  bool read_string_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                           SchemaAlternative& out);
  bool read_array_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                          SchemaAlternative& out);
  bool read_object_keyword(const std::string& key, const SchemaJson& value, const std::string& at,
                           SchemaAlternative& out);
  std::uint32_t referred(const SchemaJson& ref, const std::string& at);
  std::uint32_t find_referred(const SchemaJson& ref, const std::string& at);
  Alternatives any_of(const SchemaJson& list, const std::string& at);
  Alternatives one_of(const SchemaJson& list, const std::string& at);
  std::shared_ptr<const CharDfa> pattern(const std::string& expression, bool anywhere,
                                         const std::string& at);
  std::shared_ptr<const SchemaValues> values_of(const SchemaJson& value, bool is_list,
                                                const std::string& at);
  std::shared_ptr<const SchemaValues> values_in_both(const std::shared_ptr<const SchemaValues>& a,
                                                     const std::shared_ptr<const SchemaValues>& b);
  Alternatives both(const Alternatives& a, const Alternatives& b);
  void hold(SchemaAlternative& one);

  const SchemaJson& root_;
  Budget& budget_;
  std::vector<Subschema> schemas_;
  std::map<const SchemaJson*, std::uint32_t> numbers_;
  std::map<std::string, std::shared_ptr<const CharDfa>> patterns_;
  std::map<const SchemaJson*, std::shared_ptr<const SchemaValues>> values_;
  std::map<const SchemaJson*, std::uint32_t> referred_;  // by the reference
  std::set<std::uint32_t> open_;                         // that are being read
  std::set<const SchemaJson*> one_ofs_;                  // that are in exclusive_
  std::vector<SchemaExclusion> exclusive_;
};

/// Both sets hold.
SchemaSet united(const SchemaSet& a, const SchemaSet& b);

}  // namespace cria
