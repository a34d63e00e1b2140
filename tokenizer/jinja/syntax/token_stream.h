// The tokens of a template, one after the other.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/syntax/lexer.h"

namespace cria::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] const Token& current() const { return tokens_[next_]; }
  [[nodiscard]] const Token& look() const {
    return tokens_[std::min(next_ + 1, tokens_.size() - 1)];
  }
  [[nodiscard]] std::size_t at() const { return current().at; }
  Token take() {
    Token token = current();
    if (next_ + 1 < tokens_.size()) ++next_;
    return token;
  }

  [[nodiscard]] bool is(TokenKind kind) const { return current().kind == kind; }
  [[nodiscard]] bool is_op(std::string_view op) const {
    return is(TokenKind::Operator) && current().text == op;
  }
  [[nodiscard]] bool is_name(std::string_view name) const {
    return is(TokenKind::Name) && current().text == name;
  }
  bool skip_op(std::string_view op) { return is_op(op) && (take(), true); }
  bool skip_name(std::string_view name) { return is_name(name) && (take(), true); }

  std::string expect_name() {
    if (!is(TokenKind::Name)) unexpected("a name");
    return take().text;
  }
  void expect_op(const std::string& op) {
    if (!skip_op(op)) unexpected("'" + op + "'");
  }
  void expect(TokenKind kind, const std::string& what) {
    if (!is(kind)) unexpected(what);
    take();
  }
  [[noreturn]] void unexpected(const std::string& wanted) const {
    throw SyntaxError("expected " + wanted + ", got " + described(), at());
  }

 private:
  [[nodiscard]] std::string described() const {
    switch (current().kind) {
      case TokenKind::VariableEnd:
        return "'}}'";
      case TokenKind::BlockEnd:
        return "'%}'";
      case TokenKind::String:
        return "a string";
      case TokenKind::End:
        return "the end of the template";
      default:
        return "'" + current().text.substr(0, 40) + "'";
    }
  }

  std::vector<Token> tokens_;
  std::size_t next_ = 0;
};

}  // namespace cria::jinja
