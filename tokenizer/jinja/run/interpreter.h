// Runs a template's tree.
#pragma once

#include <memory>
#include <vector>

#include "tokenizer/jinja/builtins/call.h"
#include "tokenizer/jinja/run/scope.h"
#include "tokenizer/jinja/syntax/ast.h"

namespace cria::jinja {

class Interpreter {
 public:
  Interpreter(Context& context, const Dict& variables);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// What the template prints. Throws Failure; at() then tells where.
  Text render(const Body& body);
  [[nodiscard]] std::size_t at() const { return at_; }

 private:
  enum class Flow : std::uint8_t { Normal, Break, Continue };
  class Macro;
  class InnerScope;
  class Capture;

  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow run(const Data& data);
  Flow run(const Print& print);
  Flow run(const If& block);
  Flow run(const For& block);
  Flow run(const Set& set);
  Flow run(const SetBlock& block);
  Flow run(const std::shared_ptr<const MacroDefinition>& macro);
  Flow run(const CallBlock& block);
  Flow run(const FilterBlock& block);
  Flow run(const With& block);
  Flow run(const Group& group);
  static Flow run(const Break&) { return Flow::Break; }
  static Flow run(const Continue&) { return Flow::Continue; }

  Flow run_for(const For& block, const Value& over, std::int64_t depth);
  std::shared_ptr<const std::vector<Value>> filtered(const For& block, const Value& over);

  Value eval(const Expr& expr);
  /// Undefined for null.
  Value eval(const ExprPtr& expr) { return expr == nullptr ? Value() : eval(*expr); }
  Value eval(const Literal& literal, std::size_t) { return literal.value; }
  Value eval(const Name& name, std::size_t at);
  Value eval(const Sequence& sequence, std::size_t at);
  Value eval(const DictLiteral& dict, std::size_t at);
  Value eval(const Attribute& attribute, std::size_t at);
  Value eval(const Subscript& subscript, std::size_t at);
  Value eval(const Slice& slice, std::size_t at);
  Value eval(const Call& call, std::size_t at);
  Value eval(const Filter& filter, std::size_t at);
  Value eval(const Test& test, std::size_t at);
  Value eval(const Unary& unary, std::size_t at);
  Value eval(const Binary& binary, std::size_t at);
  Value eval(const Logic& logic, std::size_t at);
  Value eval(const Comparison& comparison, std::size_t at);
  Value eval(const Concatenation& concatenation, std::size_t at);
  Value eval(const Conditional& conditional, std::size_t at);

  Arguments evaluate(const CallArguments& arguments);
  Value call(const Value& callee, const Arguments& arguments);
  Value make_macro(std::shared_ptr<const MacroDefinition> definition);
  /// A filter, or a chain of them that begins with a block's text.
  Value filter_text(const Expr& filter, Text text);
  void assign(const Target& target, const Value& value);
  void emit(const Text& text);

  Context& context_;
  std::shared_ptr<Scope> scope_;
  Text* out_ = nullptr;
  const Value* block_text_ = nullptr;  // the input of a filter block's innermost filter
  std::size_t at_ = 0;
  std::vector<std::shared_ptr<Scope>> captured_;  // by macros, which they may hold in turn
};

}  // namespace cria::jinja
