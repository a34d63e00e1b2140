// JSON values, numbers and texts in automata: equality, bounds, and rules that write JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/constrain/automaton.h"
#include "model/file/json.h"

namespace cria {

/// Compares as JSON Schema 2020-12 (core, 4.2.2): members in any order; 1 equals 1.0.
bool same_value(const Json& a, const Json& b);

// Numbers within bounds, as text: at most 16 digits before and after the point, no exponent.

/// A number's digits.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;  ///< without zeros in front, or at the end

  /// Converts a JSON number.
  static Decimal of(const Json& number);
  [[nodiscard]] bool is_zero() const { return whole == "0" && fraction.empty(); }
};
/// -1, 0 or 1.
int compare(const Decimal& a, const Decimal& b);

struct NumberBounds {
  struct Bound {
    Decimal value;
    bool open;  ///< the value itself is outside
  };
  std::optional<Bound> low, high;
  std::uint32_t step = 0;  ///< 0: any; else multiples of step / 10^step_decimals
  std::size_t step_decimals = 0;
  [[nodiscard]] bool none() const { return !low && !high && step == 0; }
  /// False if the step has too many digits.
  bool set_step(const Decimal& value);
  [[nodiscard]] bool hold(const Decimal& value) const;
  /// True if every number within the bounds has more digits before the point than can be written.
  [[nodiscard]] bool beyond_digits() const;
};
/// The intersection of two bounds.
NumberBounds tighter(const NumberBounds& a, const NumberBounds& b);

/// Edges that read a number within bounds.
void number_edges(AutomatonBuilder& builder, NodeId from, const NumberBounds& bounds, bool integer,
                  NodeId to);

// JSON text as rules of an automaton. Between tokens: at most one space, or a line break and at
// most 20 blanks. Numbers: at most 16 digits before and after the point.

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
  void value(NodeId from, const Json& value, NodeId to);
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
