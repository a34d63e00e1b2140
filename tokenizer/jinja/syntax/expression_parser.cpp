#include "tokenizer/jinja/syntax/parser.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace cria::jinja {
namespace {

constexpr int kDeepestNesting = 100, kDeepestTree = 400;

int deepest(const ExprPtr& e) { return e == nullptr ? 0 : e->depth; }
template <class First>
int deepest(const std::pair<First, ExprPtr>& two) {
  if constexpr (std::is_same_v<First, ExprPtr>)
    return std::max(deepest(two.first), deepest(two.second));
  return deepest(two.second);
}
template <class Part>
int deepest(const std::vector<Part>& list) {
  int depth = 0;
  for (const Part& part : list) depth = std::max(depth, deepest(part));
  return depth;
}
int deepest(const CallArguments& a);
template <class... Parts>
int deepest(const Parts&... parts) requires(sizeof...(parts) > 1) {
  return std::max({deepest(parts)...});
}
int deepest(const CallArguments& a) {
  return deepest(a.positional, a.named, a.more_positional, a.more_named);
}
int deepest(const Literal&) { return 0; }
int deepest(const Name&) { return 0; }
int deepest(const Sequence& n) { return deepest(n.items); }
int deepest(const DictLiteral& n) { return deepest(n.entries); }
int deepest(const Attribute& n) { return deepest(n.object); }
int deepest(const Subscript& n) { return deepest(n.object, n.index); }
int deepest(const Slice& n) { return deepest(n.object, n.start, n.stop, n.step); }
int deepest(const Call& n) { return deepest(n.callee, n.arguments); }
int deepest(const Filter& n) { return deepest(n.input, n.arguments); }
int deepest(const Test& n) { return deepest(n.input, n.arguments); }
int deepest(const Unary& n) { return deepest(n.operand); }
int deepest(const Binary& n) { return deepest(n.left, n.right); }
int deepest(const Logic& n) { return deepest(n.left, n.right); }
int deepest(const Comparison& n) { return deepest(n.first, n.rest); }
int deepest(const Concatenation& n) { return deepest(n.parts); }
int deepest(const Conditional& n) { return deepest(n.test, n.then, n.otherwise); }

template <class Node>
ExprPtr make(std::size_t at, Node node) {
  const int depth = deepest(node) + 1;
  if (depth > kDeepestTree) throw SyntaxError("an expression is too long", at);
  return std::make_unique<Expr>(Expr{std::move(node), at, depth});
}

constexpr std::pair<std::string_view, CompareOp> kComparisons[] = {
    {"==", CompareOp::Equal},     {"!=", CompareOp::NotEqual}, {"<", CompareOp::Less},
    {"<=", CompareOp::LessEqual}, {">", CompareOp::Greater},   {">=", CompareOp::GreaterEqual}};

}  // namespace

/// Throws SyntaxError where parentheses and the like are nested too deeply for the parser's own
/// recursion.
class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (parser.nesting_ >= kDeepestNesting)
      throw SyntaxError("expressions are nested too deeply", parser.tokens_.at());
    ++parser.nesting_;
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

ExprPtr ExpressionParser::expression() {
  const Nesting nesting(*this);
  ExprPtr value = disjunction();
  while (tokens_.is_name("if")) {
    const std::size_t at = tokens_.take().at;
    ExprPtr test = disjunction();
    ExprPtr otherwise = tokens_.skip_name("else") ? expression() : nullptr;
    value = make(at, Conditional{std::move(test), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExprPtr ExpressionParser::disjunction() {
  ExprPtr left = conjunction();
  while (tokens_.is_name("or")) {
    const std::size_t at = tokens_.take().at;
    left = make(at, Logic{false, std::move(left), conjunction()});
  }
  return left;
}

ExprPtr ExpressionParser::conjunction() {
  ExprPtr left = negation();
  while (tokens_.is_name("and")) {
    const std::size_t at = tokens_.take().at;
    left = make(at, Logic{true, std::move(left), negation()});
  }
  return left;
}

ExprPtr ExpressionParser::negation() {
  if (!tokens_.is_name("not")) return comparison();
  const Nesting nesting(*this);
  const std::size_t at = tokens_.take().at;
  return make(at, Unary{UnaryOp::Not, negation()});
}

ExprPtr ExpressionParser::comparison() {
  ExprPtr first = sum();
  Comparison chain;
  const std::size_t at = tokens_.at();
  for (;;) {
    const auto* const found =
        std::ranges::find_if(kComparisons, [&](const auto& op) { return tokens_.is_op(op.first); });
    if (found != std::end(kComparisons)) {
      tokens_.take();
      chain.rest.emplace_back(found->second, sum());
    } else if (tokens_.skip_name("in")) {
      chain.rest.emplace_back(CompareOp::In, sum());
    } else if (tokens_.is_name("not") && tokens_.look().kind == TokenKind::Name &&
               tokens_.look().text == "in") {
      tokens_.take();
      tokens_.take();
      chain.rest.emplace_back(CompareOp::NotIn, sum());
    } else {
      break;
    }
  }
  if (chain.rest.empty()) return first;
  chain.first = std::move(first);
  return make(at, std::move(chain));
}

ExprPtr ExpressionParser::operands(std::span<const Operator> operators, Operand next) {
  ExprPtr left = (this->*next)();
  for (;;) {
    const auto found = std::ranges::find_if(
        operators, [&](const Operator& op) { return tokens_.is_op(op.first); });
    if (found == operators.end()) return left;
    const std::size_t at = tokens_.take().at;
    left = make(at, Binary{found->second, std::move(left), (this->*next)()});
  }
}

ExprPtr ExpressionParser::sum() {
  constexpr Operator kOps[] = {{"+", BinaryOp::Add}, {"-", BinaryOp::Subtract}};
  return operands(kOps, &ExpressionParser::concatenation);
}

ExprPtr ExpressionParser::concatenation() {
  ExprPtr first = product();
  if (!tokens_.is_op("~")) return first;
  const std::size_t at = tokens_.at();
  Concatenation all;
  all.parts.push_back(std::move(first));
  while (tokens_.skip_op("~")) all.parts.push_back(product());
  return make(at, std::move(all));
}

ExprPtr ExpressionParser::product() {
  constexpr Operator kOps[] = {{"*", BinaryOp::Multiply},
                               {"/", BinaryOp::Divide},
                               {"//", BinaryOp::FloorDivide},
                               {"%", BinaryOp::Modulo}};
  return operands(kOps, &ExpressionParser::power);
}

ExprPtr ExpressionParser::power() {
  constexpr Operator kOps[] = {{"**", BinaryOp::Power}};
  return operands(kOps, &ExpressionParser::filtered);
}

ExprPtr ExpressionParser::filtered() {
  const Nesting nesting(*this);
  return filters_and_tests(unary());
}

ExprPtr ExpressionParser::unary() {
  if (!tokens_.is_op("-") && !tokens_.is_op("+")) return postfix(primary());
  const Nesting nesting(*this);
  const Token op = tokens_.take();
  return postfix(make(op.at, Unary{op.text == "-" ? UnaryOp::Minus : UnaryOp::Plus, unary()}));
}

ExprPtr ExpressionParser::primary() {
  const std::size_t at = tokens_.at();
  switch (tokens_.current().kind) {
    case TokenKind::Name: {
      std::string name = tokens_.take().text;
      if (name == "true" || name == "True") return make(at, Literal{true});
      if (name == "false" || name == "False") return make(at, Literal{false});
      if (name == "none" || name == "None") return make(at, Literal{None{}});
      names_.push_back(name);
      return make(at, Name{std::move(name)});
    }
    case TokenKind::String: {
      std::string text;
      while (tokens_.is(TokenKind::String)) text += tokens_.take().text;
      members_.push_back(text);
      return make(at, Literal{Text(std::move(text), true)});
    }
    case TokenKind::Integer:
    case TokenKind::Float:
      return number();
    default:
      if (tokens_.is_op("(")) return parenthesized();
      if (tokens_.is_op("[")) return list();
      if (tokens_.is_op("{")) return dict();
      tokens_.unexpected("an expression");
  }
}

ExprPtr ExpressionParser::number() {
  const Token token = tokens_.take();
  const std::string& text = token.text;
  const char* const end = text.data() + text.size();
  if (token.kind == TokenKind::Float) {
    double value = 0;
    if (std::from_chars(text.data(), end, value).ec != std::errc())
      throw SyntaxError("a number is out of range: " + text, token.at);
    return make(token.at, Literal{value});
  }
  const char radix = text.size() > 2 ? static_cast<char>(text[1] | 0x20) : '\0';
  const int base = radix == 'x' ? 16 : radix == 'o' ? 8 : radix == 'b' ? 2 : 10;
  std::int64_t value = 0;
  if (std::from_chars(text.data() + (base == 10 ? 0 : 2), end, value, base).ec != std::errc())
    throw SyntaxError("an integer is too large: " + text, token.at);
  return make(token.at, Literal{value});
}

ExprPtr ExpressionParser::parenthesized() {
  const std::size_t at = tokens_.take().at;
  ExprPtr inside = tokens_.is_op(")") ? make(at, Sequence{{}, true}) : tuple(true);
  tokens_.expect_op(")");
  return inside;
}

ExprPtr ExpressionParser::list() {
  const std::size_t at = tokens_.take().at;
  Exprs items;
  while (!tokens_.is_op("]")) {
    items.push_back(expression());
    if (!tokens_.skip_op(",")) break;
  }
  tokens_.expect_op("]");
  return make(at, Sequence{std::move(items), false});
}

ExprPtr ExpressionParser::dict() {
  const std::size_t at = tokens_.take().at;
  DictLiteral entries;
  while (!tokens_.is_op("}")) {
    ExprPtr key = expression();
    tokens_.expect_op(":");
    entries.entries.emplace_back(std::move(key), expression());
    if (!tokens_.skip_op(",")) break;
  }
  tokens_.expect_op("}");
  return make(at, std::move(entries));
}

bool ExpressionParser::at_tuple_end() const {
  return tokens_.is(TokenKind::VariableEnd) || tokens_.is(TokenKind::BlockEnd) ||
         tokens_.is_op(")");
}

ExprPtr ExpressionParser::tuple(bool inline_if) {
  const std::size_t at = tokens_.at();
  const auto one = [&] { return inline_if ? expression() : disjunction(); };
  ExprPtr first = one();
  if (!tokens_.is_op(",")) return first;
  Exprs items;
  items.push_back(std::move(first));
  while (tokens_.skip_op(",") && !at_tuple_end() && !tokens_.is_name("recursive"))
    items.push_back(one());
  return make(at, Sequence{std::move(items), true});
}

ExprPtr ExpressionParser::postfix(ExprPtr value) {
  for (;;) {
    if (tokens_.is_op(".") || tokens_.is_op("[")) {
      value = subscript(std::move(value));
    } else if (tokens_.is_op("(")) {
      const std::size_t at = tokens_.at();
      value = make(at, Call{std::move(value), arguments()});
    } else {
      return value;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr object) {
  const std::size_t at = tokens_.at();
  if (tokens_.skip_op(".")) {
    if (tokens_.is(TokenKind::Integer)) return make(at, Subscript{std::move(object), number()});
    members_.push_back(tokens_.expect_name());
    return make(at, Attribute{std::move(object), members_.back()});
  }
  tokens_.take();
  ExprPtr out = subscripted(std::move(object));
  tokens_.expect_op("]");
  return out;
}

ExprPtr ExpressionParser::subscripted(ExprPtr object) {
  const std::size_t at = tokens_.at();
  ExprPtr start, stop, step;
  if (!tokens_.is_op(":")) start = tuple(true);
  if (!tokens_.skip_op(":")) return make(at, Subscript{std::move(object), std::move(start)});
  if (!tokens_.is_op(":") && !tokens_.is_op("]")) stop = expression();
  if (tokens_.skip_op(":") && !tokens_.is_op("]")) step = expression();
  return make(at, Slice{std::move(object), std::move(start), std::move(stop), std::move(step)});
}

CallArguments ExpressionParser::arguments() {
  tokens_.expect_op("(");
  CallArguments out;
  while (!tokens_.is_op(")")) {
    argument(out);
    if (!tokens_.skip_op(",")) break;
  }
  tokens_.expect_op(")");
  return out;
}

void ExpressionParser::argument(CallArguments& out) {
  const std::size_t at = tokens_.at();
  const auto ordered = [at](bool holds) {
    if (!holds) throw SyntaxError("an argument is out of order", at);
  };
  if (tokens_.skip_op("*")) {
    ordered(out.more_positional == nullptr && out.more_named == nullptr);
    out.more_positional = expression();
  } else if (tokens_.skip_op("**")) {
    ordered(out.more_named == nullptr);
    out.more_named = expression();
  } else if (tokens_.is(TokenKind::Name) && tokens_.look().kind == TokenKind::Operator &&
             tokens_.look().text == "=") {
    ordered(out.more_named == nullptr);
    std::string name = tokens_.take().text;
    tokens_.take();
    out.named.emplace_back(std::move(name), expression());
  } else {
    ordered(out.more_positional == nullptr && out.more_named == nullptr && out.named.empty());
    out.positional.push_back(expression());
  }
}

ExprPtr ExpressionParser::filters_and_tests(ExprPtr value) {
  for (;;) {
    if (tokens_.is_op("|")) {
      value = filter_chain(std::move(value), false);
    } else if (tokens_.is_name("is")) {
      value = test(std::move(value));
    } else if (tokens_.is_op("(")) {
      const std::size_t at = tokens_.at();
      value = make(at, Call{std::move(value), arguments()});
    } else {
      return value;
    }
  }
}

ExprPtr ExpressionParser::filter_chain(ExprPtr input, bool first_without_bar) {
  while (first_without_bar || tokens_.skip_op("|")) {
    first_without_bar = false;
    const std::size_t at = tokens_.at();
    std::string name = tokens_.expect_name();
    CallArguments given;
    if (tokens_.is_op("(")) given = arguments();
    input = make(at, Filter{std::move(input), std::move(name), std::move(given)});
  }
  return input;
}

ExprPtr ExpressionParser::test(ExprPtr input) {
  tokens_.take();
  const bool negated = tokens_.skip_name("not");
  const std::size_t at = tokens_.at();
  std::string name = tokens_.expect_name();
  CallArguments given;
  const auto keyword = [&] {
    return tokens_.is_name("else") || tokens_.is_name("or") || tokens_.is_name("and");
  };
  if (tokens_.is_op("(")) {
    given = arguments();
  } else if (tokens_.is_name("is")) {
    throw SyntaxError("tests cannot be chained with is", tokens_.at());
  } else if ((tokens_.is(TokenKind::Name) && !keyword()) || tokens_.is(TokenKind::String) ||
             tokens_.is(TokenKind::Integer) || tokens_.is(TokenKind::Float) || tokens_.is_op("[") ||
             tokens_.is_op("{")) {
    given.positional.push_back(postfix(primary()));  // "x is divisibleby 3"
  }
  return make(at, Test{std::move(input), std::move(name), std::move(given), negated});
}

}  // namespace cria::jinja
