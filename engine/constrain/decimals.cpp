#include "engine/constrain/decimals.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

namespace cria {
namespace {

constexpr std::size_t kMaxDigits = 16;

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  const auto order = std::pair(a.whole, a.fraction) <=> std::pair(b.whole, b.fraction);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

// Numbers without a sign. "Low" of a place: all digits so far are those of the low bound.
class Magnitudes {
 public:
  Magnitudes(AutomatonBuilder& builder, NumberBounds bounds, bool integer, NodeId to)
      : builder_(builder), bounds_(std::move(bounds)), integer_(integer), to_(to) {}

  void add(NodeId from) {
    for (std::size_t length = 1; length <= kMaxDigits; ++length) {
      const auto longer = [&](const auto& bound) {
        return bound && bound->value.whole.size() > length;
      };
      const auto equal = [&](const auto& bound) {
        return bound && bound->value.whole.size() == length;
      };
      const bool below = longer(bounds_.low);
      const bool above = bounds_.high && bounds_.high->value.whole.size() < length;
      if (!below && !above) digit(from, {length, 0, equal(bounds_.low), equal(bounds_.high)});
    }
  }

 private:
  struct Place {
    std::size_t length, at;  // of digits before the point; kMaxDigits + 1: behind it
    bool low, high;
    auto operator<=>(const Place&) const = default;
  };
  static constexpr std::size_t kFraction = kMaxDigits + 1;

  static int digit_of(const Decimal& value, const Place& place) {
    if (place.length != kFraction) return value.whole[place.at] - '0';
    return place.at < value.fraction.size() ? value.fraction[place.at] - '0' : 0;
  }

  NodeId node(const Place& place) {
    const auto [found, is_new] = nodes_.try_emplace(place, 0);
    if (!is_new) return found->second;
    const NodeId made = builder_.node();
    nodes_[place] = made;
    if (place.length != kFraction) {
      if (place.at < place.length)
        digit(made, place);
      else
        after_whole(made, place);
    } else {
      if (place.at > 0 && may_end(place)) builder_.silent(made, to_);
      if (place.at < kMaxDigits) digit(made, place);
    }
    return made;
  }

  void after_whole(NodeId from, const Place& place) {
    const Place behind{kFraction, 0, place.low, place.high};
    if (may_end(behind)) builder_.silent(from, to_);
    if (!integer_) builder_.edge(from, '.', '.', node(behind));
  }

  // Whether a number that ends here is within the bounds.
  [[nodiscard]] bool may_end(const Place& place) const {
    if (place.low) {
      const bool less = bounds_.low->value.fraction.size() > place.at;
      if (less || bounds_.low->open) return false;
    }
    return !place.high || bounds_.high->value.fraction.size() > place.at || !bounds_.high->open;
  }

  void digit(NodeId from, const Place& place) {
    const bool first = place.length != kFraction && place.at == 0;
    const int least = first && place.length > 1 ? 1 : 0;
    const int low = place.low ? digit_of(bounds_.low->value, place) : least;
    const int high = place.high ? digit_of(bounds_.high->value, place) : 9;
    for (int d = std::max(low, least); d <= high;) {
      const bool on_low = place.low && d == low, on_high = place.high && d == high;
      const int last = on_low || on_high ? d : place.high ? high - 1 : 9;
      Place next{place.length, place.at + 1, on_low, on_high};
      builder_.edge(from, static_cast<Symbol>('0' + d), static_cast<Symbol>('0' + last),
                    node(next));
      d = last + 1;
    }
  }

  AutomatonBuilder& builder_;
  const NumberBounds bounds_;
  const bool integer_;
  const NodeId to_;
  std::map<Place, NodeId> nodes_;
};

}  // namespace

Decimal Decimal::of(const nlohmann::ordered_json& number) {
  Decimal out;
  std::string text;
  if (number.is_number_float()) {
    char digits[64];
    text.assign(digits, std::to_chars(digits, digits + sizeof digits, number.get<double>(),
                                      std::chars_format::scientific)
                            .ptr);
  } else {
    text = number.dump();
  }
  out.negative = text.starts_with('-');
  text.erase(0, out.negative ? 1 : 0);
  int exponent = 0;
  if (const std::size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  out.whole = text.substr(0, point);
  out.fraction = point < text.size() ? text.substr(point + 1) : "";
  for (; exponent > 0; --exponent) {
    out.whole += out.fraction.empty() ? '0' : out.fraction.front();
    if (!out.fraction.empty()) out.fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    out.fraction.insert(out.fraction.begin(), out.whole.empty() ? '0' : out.whole.back());
    if (!out.whole.empty()) out.whole.pop_back();
  }
  out.whole.erase(0, out.whole.find_first_not_of('0'));
  if (out.whole.empty()) out.whole = "0";
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (out.is_zero()) out.negative = false;
  return out;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  return a.negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

bool NumberBounds::hold(const Decimal& value) const {
  const int over = low ? compare(value, low->value) : 1,
            under = high ? compare(high->value, value) : 1;
  return (over > 0 || (over == 0 && !low->open)) && (under > 0 || (under == 0 && !high->open));
}

bool NumberBounds::beyond_digits() const {
  const auto is_long = [](const Bound& bound) { return bound.value.whole.size() > kMaxDigits; };
  return (low && !low->value.negative && is_long(*low)) ||
         (high && high->value.negative && is_long(*high));
}

NumberBounds tighter(const NumberBounds& a, const NumberBounds& b) {
  NumberBounds out = a;
  const auto take = [](auto& mine, const auto& other, int sign) {
    if (!other) return;
    const int order = mine ? sign * compare(other->value, mine->value) : 1;
    if (order > 0)
      mine = other;
    else if (order == 0)
      mine->open = mine->open || other->open;
  };
  take(out.low, b.low, 1);
  take(out.high, b.high, -1);
  return out;
}

void number_edges(AutomatonBuilder& builder, NodeId from, const NumberBounds& bounds, bool integer,
                  NodeId to) {
  if (!bounds.high || !bounds.high->value.negative) {
    NumberBounds positive = bounds;
    if (positive.low && positive.low->value.negative) positive.low.reset();
    Magnitudes(builder, positive, integer, to).add(from);
  }
  if (bounds.low && !bounds.low->value.negative) return;
  NumberBounds negative;
  negative.low = NumberBounds::Bound{Decimal(), true};
  if (bounds.high && bounds.high->value.negative) negative.low = bounds.high;
  negative.high = bounds.low;
  negative.low->value.negative = false;
  if (negative.high) negative.high->value.negative = false;
  const NodeId sign = builder.node();
  builder.edge(from, '-', '-', sign);
  Magnitudes(builder, negative, integer, to).add(sign);
}

}  // namespace cria
