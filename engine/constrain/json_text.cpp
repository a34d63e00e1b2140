#include "engine/constrain/json_text.h"

#include <nlohmann/json.hpp>

#include "engine/constrain/code_points.h"

namespace cria {

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

void JsonText::value(NodeId from, const nlohmann::ordered_json& value, NodeId to) {
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
      builder_.text(at, nlohmann::ordered_json(key).dump(), named);
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
