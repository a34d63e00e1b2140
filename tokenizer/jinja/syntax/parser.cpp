#include "tokenizer/jinja/syntax/parser.h"

#include <algorithm>
#include <initializer_list>

namespace cria::jinja {
namespace {

constexpr int kDeepestBlocks = 60;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Tree all() {
    Body body = statements({});
    return {std::move(body), expressions_.names(), expressions_.members()};
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  /// Parses statements up to "{% end", whose name comes next, or to the end of the template.
  Body statements(Ends ends) {
    Body out;
    for (;;) {
      const std::size_t at = tokens_.at();
      if (tokens_.is(TokenKind::End)) {
        if (ends.size() != 0) tokens_.unexpected("'" + std::string(*ends.begin()) + "'");
        return out;
      }
      if (tokens_.is(TokenKind::Data)) {
        out.push_back({Data{Text(tokens_.take().text, true)}, at});
      } else if (tokens_.is(TokenKind::VariableBegin)) {
        tokens_.take();
        out.push_back({Print{expressions_.tuple(true)}, at});
        tokens_.expect(TokenKind::VariableEnd, "'}}'");
      } else {
        tokens_.take();
        if (tokens_.is(TokenKind::Name) && std::ranges::count(ends, tokens_.current().text) != 0)
          return out;
        out.push_back(statement());
        end_of_tag();
      }
    }
  }

  void end_of_tag() { tokens_.expect(TokenKind::BlockEnd, "'%}'"); }

  /// The body of a block after its opening tag, up to its end tag, whose name is passed too.
  Body body(Ends ends) {
    if (depth_ >= kDeepestBlocks) throw SyntaxError("blocks are nested too deeply", tokens_.at());
    end_of_tag();
    ++depth_;
    Body out = statements(ends);
    --depth_;
    end_ = tokens_.take().text;
    return out;
  }

  Statement statement() {
    const std::size_t at = tokens_.at();
    const std::string name = tokens_.expect_name();
    if (name == "if") return {if_block(), at};
    if (name == "for") return {for_block(), at};
    if (name == "set") return set(at);
    if (name == "macro") return {macro(), at};
    if (name == "call") return {call_block(), at};
    if (name == "filter") {
      ExprPtr filter = expressions_.filter_chain(nullptr, true);
      return {FilterBlock{std::move(filter), body({"endfilter"})}, at};
    }
    if (name == "with") return {with(), at};
    if (name == "generation") return {Group{body({"endgeneration"})}, at};
    if (name == "break" || name == "continue") return jump(name == "break", at);
    throw SyntaxError("unknown tag '" + name + "'", at);
  }

  If if_block() {
    If out;
    ExprPtr test = expressions_.tuple(false);
    out.branches.emplace_back(std::move(test), body({"elif", "else", "endif"}));
    while (end_ == "elif") {
      test = expressions_.tuple(false);
      out.branches.emplace_back(std::move(test), body({"elif", "else", "endif"}));
    }
    if (end_ == "else") out.branches.emplace_back(nullptr, body({"endif"}));
    return out;
  }

  For for_block() {
    For out;
    out.target = target(false);
    if (!tokens_.skip_name("in")) tokens_.unexpected("'in'");
    out.items = expressions_.tuple(false);
    if (tokens_.skip_name("if")) out.filter = expressions_.expression();
    out.recursive = tokens_.skip_name("recursive");
    ++loops_;
    out.body = body({"endfor", "else"});
    --loops_;
    if (end_ == "else") out.otherwise = body({"endfor"});
    return out;
  }

  Statement jump(bool breaks, std::size_t at) {
    if (loops_ == 0)
      throw SyntaxError(breaks ? "break outside of a loop" : "continue outside of a loop", at);
    if (breaks) return {Break{}, at};
    return {Continue{}, at};
  }

  Statement set(std::size_t at) {
    Target to = target(true);
    if (tokens_.skip_op("=")) return {Set{std::move(to), expressions_.tuple(true)}, at};
    ExprPtr filter = expressions_.filter_chain(nullptr, false);
    return {SetBlock{std::move(to), std::move(filter), body({"endset"})}, at};
  }

  Target one_target(bool fields) {
    const std::size_t at = tokens_.at();
    if (tokens_.skip_op("(")) {
      Target inner = target(fields);
      tokens_.expect_op(")");
      return inner;
    }
    Target out;
    out.at = at;
    out.name = tokens_.expect_name();
    for (const char* constant : {"true", "false", "none", "True", "False", "None"})
      if (out.name == constant) throw SyntaxError("cannot assign to " + out.name, at);
    if (fields && tokens_.skip_op(".")) out.field = tokens_.expect_name();
    return out;
  }

  /// A name or several, separated by commas. fields: "ns.x" too.
  Target target(bool fields) {
    if (depth_ >= kDeepestBlocks) throw SyntaxError("targets are nested too deeply", tokens_.at());
    ++depth_;
    Target out = one_target(fields);
    if (tokens_.is_op(",")) {
      Target all;
      all.at = out.at;
      all.tuple.push_back(std::move(out));
      while (tokens_.skip_op(",") && (tokens_.is(TokenKind::Name) || tokens_.is_op("(")) &&
             !tokens_.is_name("in"))
        all.tuple.push_back(one_target(fields));
      out = std::move(all);
    }
    --depth_;
    return out;
  }

  /// Parses (a, b=1), or nothing without parentheses.
  void parameters(MacroDefinition& out) {
    if (!tokens_.skip_op("(")) return;
    while (!tokens_.is_op(")")) {
      const std::size_t at = tokens_.at();
      std::string name = tokens_.expect_name();
      ExprPtr otherwise;
      if (tokens_.skip_op("="))
        otherwise = expressions_.expression();
      else if (!out.parameters.empty() && out.parameters.back().second != nullptr)
        throw SyntaxError("a parameter without a default follows one with a default", at);
      out.parameters.emplace_back(std::move(name), std::move(otherwise));
      if (!tokens_.skip_op(",")) break;
    }
    tokens_.expect_op(")");
  }

  void macro_body(MacroDefinition& out, std::string_view end) {
    const std::size_t names_before = expressions_.names().size();
    const int loops = std::exchange(loops_, 0);
    out.body = body({end});
    loops_ = loops;
    const auto uses = [&](std::string_view name) {
      const auto& names = expressions_.names();
      return std::find(names.begin() + static_cast<std::ptrdiff_t>(names_before), names.end(),
                       name) != names.end();
    };
    out.uses_caller = uses("caller");
    out.uses_varargs = uses("varargs");
    out.uses_kwargs = uses("kwargs");
  }

  std::shared_ptr<const MacroDefinition> macro() {
    auto out = std::make_shared<MacroDefinition>();
    out->name = tokens_.expect_name();
    if (!tokens_.is_op("(")) tokens_.unexpected("'('");
    parameters(*out);
    macro_body(*out, "endmacro");
    return out;
  }

  CallBlock call_block() {
    auto caller = std::make_shared<MacroDefinition>();
    caller->name = "caller";
    parameters(*caller);
    const std::size_t at = tokens_.at();
    ExprPtr call = expressions_.expression();
    if (!std::holds_alternative<Call>(call->node)) throw SyntaxError("expected a call", at);
    macro_body(*caller, "endcall");
    return {std::move(call), std::move(caller)};
  }

  With with() {
    With out;
    while (!tokens_.is(TokenKind::BlockEnd)) {
      if (!out.values.empty()) tokens_.expect_op(",");
      Target to = target(false);
      tokens_.expect_op("=");
      out.values.emplace_back(std::move(to), expressions_.expression());
    }
    out.body = body({"endwith"});
    return out;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  std::string end_;  // the name of the end tag that body() passed
  int depth_ = 0, loops_ = 0;
};

}  // namespace

Tree parse(std::string_view source) { return Parser(source).all(); }

}  // namespace cria::jinja
