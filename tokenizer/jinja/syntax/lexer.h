// Template text to tokens, with Jinja's rules for white space (trim_blocks and lstrip_blocks on, as
// chat templates are written for).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cria::jinja {

enum class TokenKind : std::uint8_t {
  Data,           ///< text between the tags
  VariableBegin,  ///< {{
  VariableEnd,
  BlockBegin,  ///< {%
  BlockEnd,
  Name,
  String,   ///< its value, escapes resolved
  Integer,  ///< digits as Python writes them, without underscores
  Float,
  Operator,
  End,
};

struct Token {
  TokenKind kind;
  std::string text;
  std::size_t at;  ///< byte of the source (with its line breaks as "\n")
};

/// A syntax error and its byte offset.
struct SyntaxError : std::runtime_error {
  SyntaxError(const std::string& what, std::size_t where) : std::runtime_error(what), at(where) {}
  std::size_t at;
};

/// The source as the lexer wants it: all line breaks "\n", and without the last one.
std::string normalized(std::string_view source);

/// Throws SyntaxError. The last token is End.
std::vector<Token> tokenize(std::string_view normalized_source);

// The value of a quoted string.

/// The text between the quotes with Python's escapes resolved (\n, \x41, \u00e9, \101, …); unknown
/// ones stay as they are. `at` is its byte in the source. Throws SyntaxError for an escape that is
/// cut short.
std::string unescaped(std::string_view quoted, std::size_t at);

// The tokens of a template, one after the other.

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
