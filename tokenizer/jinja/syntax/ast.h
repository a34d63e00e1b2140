// A template as a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using Exprs = std::vector<ExprPtr>;

struct CallArguments {
  Exprs positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional, more_named;  ///< *list and **dict, or null
};

struct Literal {
  Value value;
};
struct Name {
  std::string id;
};
struct Sequence {
  Exprs items;
  bool tuple;
};
struct DictLiteral {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Subscript {
  ExprPtr object, index;
};
struct Slice {
  ExprPtr object, start, stop, step;  ///< null where left out
};
struct Call {
  ExprPtr callee;
  CallArguments arguments;
};
struct Filter {
  ExprPtr input;  ///< null: the body of the block that it filters
  std::string name;
  CallArguments arguments;
};
struct Test {
  ExprPtr input;
  std::string name;
  CallArguments arguments;
  bool negated;
};
enum class UnaryOp : std::uint8_t { Not, Minus, Plus };
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};
enum class BinaryOp : std::uint8_t { Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power };
struct Binary {
  BinaryOp op;
  ExprPtr left, right;
};
struct Logic {
  bool conjunction;  ///< and; else or
  ExprPtr left, right;
};
enum class CompareOp : std::uint8_t {
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  In,
  NotIn
};
struct Comparison {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;  ///< a < b < c compares both pairs
};
struct Concatenation {
  Exprs parts;
};
struct Conditional {
  ExprPtr test, then, otherwise;  ///< otherwise: null if left out
};

struct Expr {
  using Variant =
      std::variant<Literal, Name, Sequence, DictLiteral, Attribute, Subscript, Slice, Call, Filter,
                   Test, Unary, Binary, Logic, Comparison, Concatenation, Conditional>;
  Variant node;
  std::size_t at;  ///< byte of the source
  int depth;       ///< depth of the tree below: a chain of a million additions is a deep tree
};

struct Statement;
using Body = std::vector<Statement>;

/// A name, a namespace's field ("ns.x") or a tuple of targets.
struct Target {
  std::string name, field;
  std::vector<Target> tuple;
  std::size_t at = 0;
};

struct Data {
  Text text;
};
struct Print {
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;  ///< a null test is else
};
struct For {
  Target target;
  ExprPtr items, filter;  ///< filter: null if left out
  Body body, otherwise;
  bool recursive;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr filter;  ///< null: none
  Body body;
};
struct MacroDefinition {
  std::string name;
  std::vector<std::pair<std::string, ExprPtr>> parameters;  ///< with defaults, or null
  Body body;
  bool uses_caller, uses_varargs, uses_kwargs;
};
struct CallBlock {
  ExprPtr call;  ///< holds a Call
  std::shared_ptr<const MacroDefinition> caller;
};
struct FilterBlock {
  ExprPtr filter;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExprPtr>> values;
  Body body;
};
struct Group {  ///< generation … endgeneration: its text is the model's, which only training cares
                ///< about
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Variant =
      std::variant<Data, Print, If, For, Set, SetBlock, std::shared_ptr<const MacroDefinition>,
                   CallBlock, FilterBlock, With, Group, Break, Continue>;
  Variant node;
  std::size_t at;
};

}  // namespace cria::jinja
