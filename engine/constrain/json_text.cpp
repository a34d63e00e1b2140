#include "engine/constrain/json_text.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/constrain/code_points.h"

namespace cria {

namespace {

using Member = std::pair<std::string_view, const Json*>;

std::vector<Member> by_name(const Json& object) {
  std::vector<Member> members;
  for (const auto& [name, value] : object.items()) members.emplace_back(name, &value);
  std::ranges::sort(members, {}, &Member::first);
  return members;
}

bool same_member(const Member& a, const Member& b) {
  return a.first == b.first && same_value(*a.second, *b.second);
}

}  // namespace

bool same_value(const Json& a, const Json& b) {
  if (a.is_array() && b.is_array()) return std::ranges::equal(a, b, same_value);
  if (!a.is_object() || !b.is_object()) return a == b;
  return a.size() == b.size() && std::ranges::equal(by_name(a), by_name(b), same_member);
}

namespace {

constexpr std::size_t kMaxDigits = 16;

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -1 : 1;
  const auto order = std::pair(a.whole, a.fraction) <=> std::pair(b.whole, b.fraction);
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

// Numbers without a sign. A place is "low" while all its digits equal the low bound's.
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
    std::size_t length, at;  // digits before the point; kMaxDigits + 1: after it
    bool low, high;
    std::uint32_t rest = 0;  // remainder of the digits so far, divided by the step
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
      if (place.at < most_decimals()) digit(made, place);
    }
    return made;
  }

  [[nodiscard]] std::size_t most_decimals() const {
    return bounds_.step == 0 ? kMaxDigits : bounds_.step_decimals;
  }

  void after_whole(NodeId from, const Place& place) {
    const Place behind{kFraction, 0, place.low, place.high, place.rest};
    if (may_end(behind)) builder_.silent(from, to_);
    if (!integer_ && most_decimals() > 0) builder_.edge(from, '.', '.', node(behind));
  }

  // True if a number that ends here is within the bounds.
  [[nodiscard]] bool may_end(const Place& place) const {
    if (bounds_.step != 0) {
      std::uint64_t rest = place.rest;
      for (std::size_t i = place.at; i < bounds_.step_decimals; ++i)
        rest = rest * 10 % bounds_.step;
      if (rest != 0) return false;
    }
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
      const bool alone = on_low || on_high || bounds_.step > 1;
      const int last = alone ? d : place.high ? high - 1 : 9;
      Place next{place.length, place.at + 1, on_low, on_high};
      if (bounds_.step > 1)
        next.rest = (place.rest * 10 + static_cast<std::uint32_t>(d)) % bounds_.step;
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

Decimal Decimal::of(const Json& number) {
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

bool NumberBounds::set_step(const Decimal& value) {
  constexpr std::size_t kMaxDigitsOfStep = 4;
  std::string digits = value.whole + value.fraction;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  if (digits.size() > kMaxDigitsOfStep || value.fraction.size() > kMaxDigits || digits == "0")
    return false;
  step = static_cast<std::uint32_t>(std::stoul(digits));
  step_decimals = value.fraction.size();
  return true;
}

bool NumberBounds::hold(const Decimal& value) const {
  if (step != 0) {
    if (value.fraction.size() > step_decimals) return false;
    std::uint64_t rest = 0;
    const std::string zeros(step_decimals - value.fraction.size(), '0');
    for (const char digit : value.whole + value.fraction + zeros)
      rest = (rest * 10 + static_cast<std::uint64_t>(digit - '0')) % step;
    if (rest != 0) return false;
  }
  const int over = low ? compare(value, low->value) : 1,
            under = high ? compare(high->value, value) : 1;
  return (over > 0 || (over == 0 && !low->open)) && (under > 0 || (under == 0 && !high->open));
}

bool NumberBounds::beyond_digits() const {
  const auto is_long = [](const Bound& bound) { return bound.value.whole.size() > kMaxDigits; };
  return (low && !low->value.negative && is_long(*low)) ||
         (high && high->value.negative && is_long(*high));
}

namespace {

[[noreturn]] void throw_large_step() {
  throw ConstraintError("schema: the common multiple of multipleOf is too large", "");
}

}  // namespace

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
  if (b.step == 0 || a.step == 0) {
    if (a.step == 0) out.step = b.step, out.step_decimals = b.step_decimals;
    return out;
  }
  // A multiple of both, as integers of the finer unit.
  out.step_decimals = std::max(a.step_decimals, b.step_decimals);
  const auto in_units = [&](const NumberBounds& bounds) {
    std::uint64_t units = bounds.step;
    for (std::size_t i = bounds.step_decimals; i < out.step_decimals; ++i) units *= 10;
    return units;
  };
  constexpr std::uint64_t kMaxStep = 100'000;
  if (out.step_decimals > std::min(a.step_decimals, b.step_decimals) + 4) throw_large_step();
  const std::uint64_t common = std::lcm(in_units(a), in_units(b));
  if (common > kMaxStep) throw_large_step();
  out.step = static_cast<std::uint32_t>(common);
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

RuleId JsonText::space_rule() {
  if (space_) return *space_;
  constexpr std::size_t kMaxBlanks = 20;
  space_ = builder_.rule();
  const NodeId start = builder_.start(*space_), end = builder_.end(*space_);
  builder_.silent(start, end);
  builder_.edge(start, ' ', ' ', end);
  NodeId at = builder_.node();
  builder_.edge(start, '\n', '\n', at);
  for (std::size_t i = 0; i < kMaxBlanks; ++i) {
    const NodeId next = builder_.node();
    builder_.silent(at, end);
    builder_.edge(at, ' ', ' ', next);
    at = next;
  }
  builder_.silent(at, end);
  return *space_;
}

RuleId JsonText::char_rule() {
  if (char_) return *char_;
  char_ = builder_.rule();
  json_char_edges(builder_, builder_.start(*char_), all_codes(), builder_.end(*char_));
  return *char_;
}

RuleId JsonText::string_rule() {
  if (string_) return *string_;
  string_ = builder_.rule();
  const NodeId inside = builder_.node();
  builder_.edge(builder_.start(*string_), '"', '"', inside);
  json_char_edges(builder_, inside, all_codes(), inside);
  builder_.edge(inside, '"', '"', builder_.end(*string_));
  return *string_;
}

void JsonText::digits(NodeId from, std::size_t least, std::size_t most, NodeId to) {
  for (std::size_t i = 0;; ++i) {
    if (i >= least) builder_.silent(from, to);
    if (i == most) return;
    const NodeId next = builder_.node();
    builder_.edge(from, '0', '9', next);
    from = next;
  }
}

// The exponent keeps the number within what a double can hold: 16 digits before the point and e289.
RuleId JsonText::number_rule() {
  if (number_) return *number_;
  number_ = builder_.rule();
  const NodeId start = builder_.start(*number_), end = builder_.end(*number_);
  const NodeId sign = builder_.node(), first = builder_.node(), whole = builder_.node();
  const NodeId point = builder_.node(), fraction = builder_.node();
  builder_.silent(start, sign);
  builder_.edge(start, '-', '-', sign);
  builder_.edge(sign, '0', '0', whole);
  builder_.edge(sign, '1', '9', first);
  digits(first, 0, 15, whole);
  builder_.silent(whole, fraction);
  builder_.edge(whole, '.', '.', point);
  digits(point, 1, 16, fraction);
  builder_.silent(fraction, end);
  const NodeId exponent = builder_.node(), size = builder_.node(), one = builder_.node(),
               two = builder_.node();
  builder_.edge(fraction, 'e', 'e', exponent);
  builder_.edge(fraction, 'E', 'E', exponent);
  builder_.silent(exponent, size);
  builder_.edge(exponent, '+', '+', size);
  builder_.edge(exponent, '-', '-', size);
  digits(size, 1, 2, end);
  builder_.edge(size, '1', '1', one);
  digits(one, 2, 2, end);
  builder_.edge(size, '2', '2', two);
  const NodeId tens = builder_.node();
  builder_.edge(two, '0', '8', tens);
  digits(tens, 1, 1, end);
  return *number_;
}

void JsonText::comma(NodeId from, NodeId to) {
  const NodeId after = builder_.node();
  builder_.edge(from, ',', ',', after);
  space(after, to);
}

void JsonText::colon(NodeId from, NodeId to) {
  const NodeId after = builder_.node();
  builder_.edge(from, ':', ':', after);
  space(after, to);
}

RuleId JsonText::array_rule() {
  if (array_) return *array_;
  array_ = builder_.rule();
  const NodeId open = builder_.node(), item = builder_.node(), after = builder_.node(),
               close = builder_.node();
  builder_.edge(builder_.start(*array_), '[', '[', open);
  space(open, item);
  any_value(item, after);
  comma(after, item);
  space(after, close);
  space(open, close);
  builder_.edge(close, ']', ']', builder_.end(*array_));
  return *array_;
}

RuleId JsonText::object_rule() {
  if (object_) return *object_;
  object_ = builder_.rule();
  const NodeId open = builder_.node(), key = builder_.node(), named = builder_.node(),
               value = builder_.node();
  const NodeId after = builder_.node(), close = builder_.node();
  builder_.edge(builder_.start(*object_), '{', '{', open);
  space(open, key);
  any_string(key, named);
  colon(named, value);
  any_value(value, after);
  comma(after, key);
  space(after, close);
  space(open, close);
  builder_.edge(close, '}', '}', builder_.end(*object_));
  return *object_;
}

RuleId JsonText::value_rule() {
  if (value_) return *value_;
  value_ = builder_.rule();
  const NodeId start = builder_.start(*value_), end = builder_.end(*value_);
  for (const std::string_view word : {"null", "true", "false"}) builder_.text(start, word, end);
  any_number(start, end);
  any_string(start, end);
  any_array(start, end);
  any_object(start, end);
  return *value_;
}

void JsonText::value(NodeId from, const Json& value, NodeId to) {
  if (!value.is_structured() || value.empty()) return builder_.text(from, value.dump(), to);
  const bool is_object = value.is_object();
  NodeId next = builder_.node(), at = builder_.node();
  builder_.text(from, is_object ? "{" : "[", next);
  space(next, at);
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) comma(at, next = builder_.node()), at = next;
    first = false;
    if (is_object) {
      const NodeId named = builder_.node(), begin = builder_.node();
      builder_.text(at, Json(key).dump(), named);
      colon(named, begin);
      at = begin;
    }
    this->value(at, item, next = builder_.node());
    at = next;
  }
  const NodeId close = builder_.node();
  space(at, close);
  builder_.text(close, is_object ? "}" : "]", to);
}

}  // namespace cria
