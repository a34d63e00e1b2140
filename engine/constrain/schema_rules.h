// The rules of an automaton that write what satisfies a schema.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/constrain/json_text.h"
#include "engine/constrain/schema_form.h"

namespace cria {

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
  void object(NodeId from, const SchemaAlternative& one, NodeId to);
  void further_members(NodeId from, const SchemaAlternative& one, NodeId to);
  void name_texts(NodeId from, const SchemaAlternative& name, const SchemaAlternative& one,
                  NodeId to);
  void pattern_text(NodeId from, CharDfa dfa,
                    std::span<const std::shared_ptr<const CharDfa>> patterns,
                    const SchemaAlternative& one, NodeId to);
  bool may_be_name(std::string_view text, const SchemaAlternative& one);
  /// Whether it is `false`, or true of nothing at first sight.
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
