// JSON text as rules of an automaton: between tokens at most one space, or a line break and at most
// 20 blanks; numbers of at most 16 digits before and after the point.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "engine/constrain/automaton.h"

namespace cria {

class JsonText {
 public:
  explicit JsonText(AutomatonBuilder& builder) : builder_(builder) {}

  void space(NodeId from, NodeId to) { builder_.call(from, space_rule(), to); }
  /// One of the characters of a string, as it may stand in it.
  void any_char(NodeId from, NodeId to) { builder_.call(from, char_rule(), to); }
  void any_string(NodeId from, NodeId to) { builder_.call(from, string_rule(), to); }
  void any_number(NodeId from, NodeId to) { builder_.call(from, number_rule(), to); }
  void any_array(NodeId from, NodeId to) { builder_.call(from, array_rule(), to); }
  void any_object(NodeId from, NodeId to) { builder_.call(from, object_rule(), to); }
  void any_value(NodeId from, NodeId to) { builder_.call(from, value_rule(), to); }
  /// This value and no other, with spaces where they may be.
  void value(NodeId from, const nlohmann::ordered_json& value, NodeId to);
  /// space, then : and space: between a key and its value.
  void colon(NodeId from, NodeId to);
  void comma(NodeId from, NodeId to);

  [[nodiscard]] AutomatonBuilder& builder() const { return builder_; }

 private:
  RuleId space_rule();
  RuleId char_rule();
  RuleId string_rule();
  RuleId number_rule();
  RuleId array_rule();
  RuleId object_rule();
  RuleId value_rule();
  void digits(NodeId from, std::size_t least, std::size_t most, NodeId to);

  AutomatonBuilder& builder_;
  std::optional<RuleId> space_, char_, string_, number_, array_, object_, value_;
};

}  // namespace cria
