// Expressions of a template, with Jinja's precedences: if else, or, and, not, comparisons, + -, ~,
// * / // %, **, signs, then filters and tests, which bind tightest.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/syntax/ast.h"
#include "tokenizer/jinja/syntax/lexer.h"

namespace cria::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExprPtr expression();
  /// Without an inline if.
  ExprPtr disjunction();
  /// Expressions separated by commas are a tuple. inline_if: they may be conditional.
  ExprPtr tuple(bool inline_if);
  /// name(arguments)|name…, after a bar or where a block begins with a filter; input null: the
  /// block's text.
  ExprPtr filter_chain(ExprPtr input, bool first_without_bar);
  /// A name or literal, no operators.
  ExprPtr primary();

  /// Every variable that was read so far.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// Every attribute, and every text that may be a key, so far.
  [[nodiscard]] const std::vector<std::string>& members() const { return members_; }

 private:
  class Nesting;
  using Operator = std::pair<std::string_view, BinaryOp>;
  using Operand = ExprPtr (ExpressionParser::*)();

  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  /// Operands with these operators between them, from the left.
  ExprPtr operands(std::span<const Operator> operators, Operand next);
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr filtered();
  ExprPtr unary();
  ExprPtr number();
  ExprPtr parenthesized();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr object);
  ExprPtr filters_and_tests(ExprPtr input);
  ExprPtr test(ExprPtr input);
  ExprPtr subscript(ExprPtr object);
  ExprPtr subscripted(ExprPtr object);
  CallArguments arguments();
  void argument(CallArguments& out);
  [[nodiscard]] bool at_tuple_end() const;

  TokenStream& tokens_;
  std::vector<std::string> names_, members_;
  int nesting_ = 0;
};

// A template's source to its tree.

struct Tree {
  Body body;
  std::vector<std::string>
      variables;  ///< every one that is read, also where the template sets it itself
  std::vector<std::string> members;  ///< attributes, and texts that may be keys
};

/// Throws SyntaxError.
Tree parse(std::string_view normalized_source);

}  // namespace cria::jinja
