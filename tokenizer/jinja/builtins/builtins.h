// Objects that hold values. Their depth is not counted, and destroying a chain of millions would
// overflow the stack; therefore they cannot hold each other.
#pragma once

#include <ctime>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/syntax/ast.h"
#include "tokenizer/jinja/values/budget.h"
#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

/// The depth that an object has as a part of a list: generators, joiners, methods with their
/// values; loops, which hold anything.
inline constexpr int kHolderDepth = 50, kLoopDepth = 60;

/// Throws Failure if one of the values is, or contains, a holder.
inline void forbid_holders(std::span<const Value> values) {
  for (const Value& value : values) {
    if (value.extent().depth >= kHolderDepth)
      throw Failure(
          "a generator, function or loop cannot be kept in another one (|list makes a list of a "
          "generator)");
  }
}

/// Throws Failure if the value is, or contains, a loop: namespaces must not keep one.
inline void forbid_loops(const Value& value) {
  if (value.extent().depth >= kLoopDepth)
    throw Failure("a namespace cannot keep a loop or so deep a value");
}

// Calls of functions, methods, filters and tests: what they get and how they read it.

/// A text that grows at the budget's expense, until it is destroyed.
struct LentText {
  explicit LentText(Budget& b) : budget(b), loan(b, 0) {}
  void append(const Text& more) {
    budget.read(more.size());
    loan.take(more.size());
    text.append(more);
  }
  static Value value(const std::shared_ptr<LentText>& lent) {
    return std::shared_ptr<const Text>(lent, &lent->text);
  }

  Budget& budget;
  Budget::Loan loan;
  Text text;
};

/// The state that a call can use.
struct Context {
  Budget& budget;
  std::tm now;  ///< time for strftime_now
  /// Namespaces of this rendering. They may hold each other in circles, so they are emptied at its
  /// end.
  std::vector<std::shared_ptr<Namespace>> namespaces = {};

  /// to_text and repr, paid for.
  Text text(const Value& value) const;
  Text shown(const Value& value) const;
  /// The text escaped as HTML, paid for.
  Text escaped(const Text& text) const;
  /// The elements that a for loop would see. Throws Failure if the value cannot be iterated over.
  std::vector<Value> elements(const Value& value) const;
  /// A new text.
  Value made(const Text& text) const {
    const auto lent = std::make_shared<LentText>(budget);
    lent->append(text);
    lent->text.set_markup(text.is_markup());
    return LentText::value(lent);
  }
};

struct Arguments {
  struct Named {
    Text name;  ///< the template's own, or the key of a mapping after **, with its author
    Value value;
  };
  std::vector<Value> positional;
  std::vector<Named> named;
};

/// Arguments in the order of the parameters' names. Throws Failure for too many, unknown or missing
/// ones.
class Bound {
 public:
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<const char*> names, std::size_t required = 0);
  [[nodiscard]] bool has(std::size_t i) const { return values_[i].has_value(); }
  [[nodiscard]] const Value& operator[](std::size_t i) const { return *values_[i]; }
  [[nodiscard]] Value get(std::size_t i, Value otherwise) const {
    return has(i) ? *values_[i] : otherwise;
  }
  [[nodiscard]] bool truth(std::size_t i, bool otherwise) const {
    return has(i) ? (*this)[i].truth() : otherwise;
  }
  /// These throw Failure for a value of another type.
  [[nodiscard]] std::int64_t integer(std::size_t i, std::int64_t otherwise) const;
  [[nodiscard]] std::size_t size(std::size_t i, std::int64_t otherwise) const;  ///< 0 if negative
  [[nodiscard]] const Text& text(std::size_t i) const;
  [[nodiscard]] Text text(std::size_t i, const char* otherwise) const;
  /// Returns nullopt if the argument is absent or none.
  [[nodiscard]] std::optional<Text> optional_text(std::size_t i) const;

 private:
  [[noreturn]] void wrong_type(std::size_t i, const char* expected) const;

  std::string function_;
  std::vector<const char*> names_;
  std::vector<std::optional<Value>> values_;
};

/// A function of the program that templates can call.
using Native = std::function<Value(Context&, const Arguments&)>;
Value function(std::string name, Native native);

/// Throws Failure that says what is undefined, if the value is.
void require_defined(const Value& value);

// Filters ({{ x|upper }}) and tests ({{ x is defined }}) by name.

/// Throws Failure for an unknown name too.
Value apply_filter(Context& context, std::string_view name, const Value& input,
                   const Arguments& arguments);
bool apply_test(Context& context, std::string_view name, const Value& input,
                const Arguments& arguments);

struct NamedFilter {
  std::string_view name;
  Value (*run)(Context& context, const Value& input, const Arguments& arguments);
};
/// Filters that make a text or a number, and those that go through the elements of a sequence.
const NamedFilter* find_scalar_filter(std::string_view name);
const NamedFilter* find_sequence_filter(std::string_view name);
bool is_filter(std::string_view name);
bool is_test(std::string_view name);

// The functions that every template can call by name.

/// range, dict, namespace, cycler, joiner; raise_exception and strftime_now, which chat templates
/// expect too. Undefined for any other name.
Value global_function(const std::string& name);

// The methods of strings, lists and dicts that templates can call.

/// The method of this name, bound to the value. Nothing if it has none. One that would change the
/// value is undefined, as in Jinja's sandbox.
std::optional<Value> method(const Value& value, std::string_view name);

/// A text, or the texts of a list, escaped as HTML; other values as they are.
Value escaped(Context& context, const Value& value);

/// Lists made of texts.
Value text_list(Context& context, std::vector<Text> texts);

// Python's operators on template values. All throw Failure where Python raises.

Value arithmetic(Context& context, BinaryOp op, const Value& a, const Value& b);
Value negative(const Value& a);
Value positive(const Value& a);
bool compare(Context& context, CompareOp op, const Value& a, const Value& b);
/// a == b
bool equal(Context& context, const Value& a, const Value& b);
/// a < b
bool less(Context& context, const Value& a, const Value& b);
/// needle in haystack
bool contains(Context& context, const Value& haystack, const Value& needle);
/// x[index], or undefined; a name also finds methods.
Value item(Context& context, const Value& x, const Value& index);
/// x.name: methods before the keys of a dict, or undefined.
Value attribute(const Value& x, const std::string& name);
/// x[start:stop:step]; undefined bounds: left out.
Value slice(Context& context, const Value& x, const Value& start, const Value& stop,
            const Value& step);
/// format % values
Value percent_format(Context& context, const Text& format, const Value& values);
/// format.format(arguments)
Value brace_format(Context& context, const Text& format, const Arguments& arguments);

// str's methods.

struct Method {
  std::string_view name;
  Value (*run)(Context& context, const Value& self, const Arguments& arguments);
};

std::span<const Method> string_methods();

}  // namespace cria::jinja
