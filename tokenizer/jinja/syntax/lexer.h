// Template text to tokens, with Jinja's rules for white space (trim_blocks and lstrip_blocks on, as
// chat templates are written for).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
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

/// What is wrong with a template's syntax, and at which byte.
struct SyntaxError : std::runtime_error {
  SyntaxError(const std::string& what, std::size_t where) : std::runtime_error(what), at(where) {}
  std::size_t at;
};

/// The source as the lexer wants it: all line breaks "\n", and without the last one.
std::string normalized(std::string_view source);

/// Throws SyntaxError. The last token is End.
std::vector<Token> tokenize(std::string_view normalized_source);

}  // namespace cria::jinja
