// Variables, in scopes inside of each other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/builtins/builtins.h"
#include "tokenizer/jinja/syntax/ast.h"
#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  /// Null if neither this scope nor an outer one has the variable.
  [[nodiscard]] const Value* find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      const auto found = scope->variables_.find(name);
      if (found != scope->variables_.end()) return &found->second;
    }
    return nullptr;
  }
  /// Sets it here; outer variables of the same name are hidden, not changed.
  void set(const std::string& name, Value value) {
    variables_.insert_or_assign(name, std::move(value));
  }
  /// Its values may refer back to it.
  void clear() { variables_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::map<std::string, Value> variables_;  // mostly one or two
};

// The variable `loop` of a for block.

class Loop final : public Object {
 public:
  /// again renders the block for other items, one level deeper; empty if the block is not
  /// recursive.
  using Again = std::function<Value(const Value& items, std::int64_t depth)>;
  Loop(std::shared_ptr<const std::vector<Value>> items, std::int64_t depth, Again again)
      : items_(std::move(items)), depth_(depth), again_(std::move(again)) {}

  [[nodiscard]] const std::vector<Value>& items() const { return *items_; }
  void go_to(std::size_t index) { index_ = index; }

  [[nodiscard]] std::string type_name() const override { return "LoopContext"; }
  [[nodiscard]] Text shown() const override {
    return {
        "<LoopContext " + std::to_string(index_ + 1) + "/" + std::to_string(items_->size()) + ">",
        true};
  }
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override;
  [[nodiscard]] bool callable() const override { return again_ != nullptr; }
  Value call(Context& context, const Arguments& arguments) override;

 private:
  Value cycle(const Arguments& arguments) const;
  bool changed(Context& context, const Arguments& arguments);

  std::shared_ptr<const std::vector<Value>> items_;
  std::size_t index_ = 0;
  std::int64_t depth_;  // from 1
  Again again_;
  std::optional<std::string> last_;  // as text: a value could be this loop
};

// Matches the arguments of a macro's call with its parameters.

struct MacroArguments {
  std::vector<std::optional<Value>> parameters;  ///< one per parameter of the definition
  std::vector<std::pair<std::string, Value>>
      special;  ///< caller, varargs, kwargs, where the macro uses them
};

/// Throws Failure for arguments that the macro does not take. Left out ones are allowed.
MacroArguments match_arguments(const MacroDefinition& macro, const Arguments& arguments);

// Runs a template's tree.

class Interpreter {
 public:
  Interpreter(Context& context, const Dict& variables);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Returns the output. Throws Failure; at() then gives the place.
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
