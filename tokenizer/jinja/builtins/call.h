// Calls of functions, methods, filters and tests: what they get and how they read it.
#pragma once

#include <ctime>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/values/budget.h"
#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

/// What a call can reach.
struct Context {
  Budget& budget;
  std::tm now;  ///< what strftime_now tells
  /// Namespaces of this rendering. They may hold each other in circles, so they are emptied at its
  /// end.
  std::vector<std::shared_ptr<Namespace>> namespaces = {};

  /// to_text and repr, paid for.
  Text text(const Value& value) const;
  Text shown(const Value& value) const;
  /// The elements that a for loop would see. Throws Failure if the value cannot be iterated over.
  std::vector<Value> elements(const Value& value) const;
  /// A text that was made.
  Value made(Text text) const {
    budget.take(text.size());
    return text;
  }
};

struct Arguments {
  struct Named {
    Text name;  ///< the template's own, or behind ** a mapping's key, whoever wrote that
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
  [[nodiscard]] const Text& text(std::size_t i) const;
  [[nodiscard]] Text text(std::size_t i, const char* otherwise) const;
  /// Nothing where the argument is absent or none.
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

}  // namespace cria::jinja
