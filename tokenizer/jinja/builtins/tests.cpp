// Tests: {{ x is defined }}.
#include <algorithm>

#include "tokenizer/jinja/builtins/builtins.h"

namespace cria::jinja {
namespace {

struct NamedTest {
  std::string_view name;
  bool (*run)(Context& context, const Value& x, const Arguments& arguments);
};

/// A test without arguments.
template <bool (*holds)(const Value&)>
bool plain(Context&, const Value& x, const Arguments& arguments) {
  const Bound args("a test", arguments, {});
  return holds(x);
}

template <CompareOp op>
bool comparing(Context& context, const Value& x, const Arguments& arguments) {
  const Bound args("a comparison", arguments, {"other"}, 1);
  return compare(context, op, x, args[0]);
}

Value remainder(Context& context, const Value& x, const Value& by) {
  return arithmetic(context, BinaryOp::Modulo, x, by);
}

template <int wanted>
bool parity(Context& context, const Value& x, const Arguments& arguments) {
  const Bound args("odd or even", arguments, {});
  return equal(context, remainder(context, x, 2), wanted);
}

bool divisibleby(Context& context, const Value& x, const Arguments& arguments) {
  const Bound args("divisibleby", arguments, {"num"}, 1);
  return equal(context, remainder(context, x, args[0]), 0);
}

bool sameas(Context& context, const Value& x, const Arguments& arguments) {
  const Bound args("sameas", arguments, {"other"}, 1);
  const Value& y = args[0];
  if (x.list() != nullptr || x.dict() != nullptr)
    return x.list() == y.list() && x.dict() == y.dict();
  return x.type_name() == y.type_name() && equal(context, x, y);
}

template <const char* method_name>
bool text_in_case(Context& context, const Value& x, const Arguments& arguments) {
  const Bound args("a test", arguments, {});
  const auto in_case = method(context.text(x), method_name);
  return in_case->object()->call(context, {}).truth();
}
constexpr char kIsLower[] = "islower", kIsUpper[] = "isupper";

template <bool (*known)(std::string_view)>
bool named(Context&, const Value& x, const Arguments& arguments) {
  const Bound args("filter or test", arguments, {});
  return x.text() != nullptr && known(x.text()->bytes());
}

bool is_defined(const Value& x) { return !x.is_undefined(); }
bool is_undefined(const Value& x) { return x.is_undefined(); }
bool is_none(const Value& x) { return x.is_none(); }
bool is_boolean(const Value& x) { return x.is_bool(); }
bool is_true(const Value& x) { return x.is_bool() && x.truth(); }
bool is_false(const Value& x) { return x.is_bool() && !x.truth(); }
bool is_integer(const Value& x) { return x.integer().has_value() && !x.is_bool(); }
bool is_float(const Value& x) { return x.is_float(); }
bool is_number(const Value& x) { return x.is_number(); }
bool is_string(const Value& x) { return x.text() != nullptr; }
bool is_mapping(const Value& x) { return x.dict() != nullptr; }
bool is_sequence(const Value& x) {
  return is_string(x) || is_mapping(x) || x.is_undefined() ||
         (x.list() != nullptr && x.list()->indexable());
}
bool is_iterable(const Value& x) {
  return is_string(x) || is_mapping(x) || x.is_undefined() || x.list() != nullptr ||
         x.object_as<Generator>() != nullptr;
}
bool is_callable(const Value& x) {
  return x.is_undefined() || (x.object() != nullptr && x.object()->callable());
}
bool never(const Value&) { return false; }

constexpr NamedTest kTests[] = {{"!=", comparing<CompareOp::NotEqual>},
                                {"<", comparing<CompareOp::Less>},
                                {"<=", comparing<CompareOp::LessEqual>},
                                {"==", comparing<CompareOp::Equal>},
                                {">", comparing<CompareOp::Greater>},
                                {">=", comparing<CompareOp::GreaterEqual>},
                                {"boolean", plain<is_boolean>},
                                {"callable", plain<is_callable>},
                                {"defined", plain<is_defined>},
                                {"divisibleby", divisibleby},
                                {"eq", comparing<CompareOp::Equal>},
                                {"equalto", comparing<CompareOp::Equal>},
                                {"escaped", plain<never>},
                                {"even", parity<0>},
                                {"false", plain<is_false>},
                                {"filter", named<is_filter>},
                                {"float", plain<is_float>},
                                {"ge", comparing<CompareOp::GreaterEqual>},
                                {"greaterthan", comparing<CompareOp::Greater>},
                                {"gt", comparing<CompareOp::Greater>},
                                {"in", comparing<CompareOp::In>},
                                {"integer", plain<is_integer>},
                                {"iterable", plain<is_iterable>},
                                {"le", comparing<CompareOp::LessEqual>},
                                {"lessthan", comparing<CompareOp::Less>},
                                {"lower", text_in_case<kIsLower>},
                                {"lt", comparing<CompareOp::Less>},
                                {"mapping", plain<is_mapping>},
                                {"ne", comparing<CompareOp::NotEqual>},
                                {"none", plain<is_none>},
                                {"number", plain<is_number>},
                                {"odd", parity<1>},
                                {"sameas", sameas},
                                {"sequence", plain<is_sequence>},
                                {"string", plain<is_string>},
                                {"test", named<is_test>},
                                {"true", plain<is_true>},
                                {"undefined", plain<is_undefined>},
                                {"upper", text_in_case<kIsUpper>}};

}  // namespace

bool is_test(std::string_view name) {
  return std::ranges::find(kTests, name, &NamedTest::name) != std::end(kTests);
}

bool apply_test(Context& context, std::string_view name, const Value& x,
                const Arguments& arguments) {
  const auto* const found = std::ranges::find(kTests, name, &NamedTest::name);
  if (found == std::end(kTests)) throw Failure("no test named '" + std::string(name) + "'");
  return found->run(context, x, arguments);
}

}  // namespace cria::jinja
