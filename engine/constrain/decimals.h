// Numbers within bounds, as text: at most 16 digits before and after the point, no exponent.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "engine/constrain/automaton.h"

namespace cria {

/// A number's digits.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction;  ///< without zeros in front, or at the end

  /// Of a JSON number.
  static Decimal of(const nlohmann::ordered_json& number);
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
  [[nodiscard]] bool none() const { return !low && !high; }
  [[nodiscard]] bool hold(const Decimal& value) const;
  /// Whether every number within them has more digits before the point than are written.
  [[nodiscard]] bool beyond_digits() const;
};
/// What is within both.
NumberBounds tighter(const NumberBounds& a, const NumberBounds& b);

/// Edges that read a number within bounds.
void number_edges(AutomatonBuilder& builder, NodeId from, const NumberBounds& bounds, bool integer,
                  NodeId to);

}  // namespace cria
