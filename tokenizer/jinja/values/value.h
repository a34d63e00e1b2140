// The values of a template: Python's, as far as templates can see.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/jinja/values/budget.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::jinja {

class Value;
class Dict;
class Object;
struct List;

/// Kept with the value, because walking values that share parts could take exponential time.
struct Extent {
  int depth = 0;             ///< lists and dicts inside of each other
  std::uint64_t weight = 1;  ///< about the bytes of its printed form
};

struct None {};
/// An integer beyond 64 bits.
struct LargeInteger {
  std::shared_ptr<const std::string> digits;
};
/// Jinja's default Undefined: empty when printed, an error in most other uses. The text
/// tells what is missing.
struct Undefined {
  std::shared_ptr<const std::string> why;
};

/// Immutable except namespaces; copies share. Integers have 64 bits. Larger ones in JSON keep their
/// digits and are printed with them; calculations use them as floats.
class Value {
 public:
  using Variant = std::variant<Undefined, None, bool, std::int64_t, LargeInteger, double,
                               std::shared_ptr<const Text>, std::shared_ptr<const List>,
                               std::shared_ptr<const Dict>, std::shared_ptr<Object>>;

  Value() = default;  ///< undefined, nothing known about why
  Value(None none) : v_(none) {}
  Value(bool b) : v_(b) {}
  Value(std::int64_t i) : v_(i) {}
  Value(int i) : v_(std::int64_t{i}) {}
  Value(double d) : v_(d) {}
  Value(Text text) : v_(std::make_shared<const Text>(std::move(text))) {}
  Value(std::shared_ptr<const Text> text) : v_(std::move(text)) {}
  /// A text of the template or of the program itself. What comes from elsewhere is Text(…, false).
  Value(const char* trusted) : Value(Text(trusted, true)) {}
  Value(List list);
  Value(Dict dict);
  Value(std::shared_ptr<Object> object) : v_(std::move(object)) {}
  static Value undefined(std::string why);
  /// An integer's decimal digits, beyond the range of int64.
  static Value large_integer(std::string digits);
  static Value from_size(std::size_t n) { return static_cast<std::int64_t>(n); }

  [[nodiscard]] bool is_undefined() const { return std::holds_alternative<Undefined>(v_); }
  [[nodiscard]] bool is_none() const { return std::holds_alternative<None>(v_); }
  [[nodiscard]] bool is_bool() const { return std::holds_alternative<bool>(v_); }
  [[nodiscard]] bool is_float() const {
    return std::holds_alternative<double>(v_) || large_integer() != nullptr;
  }
  [[nodiscard]] bool is_number() const {
    return integer().has_value() || is_float();
  }  ///< a bool is one too
  /// Returns an int or a bool as integer; nullopt for other types.
  [[nodiscard]] std::optional<std::int64_t> integer() const;
  /// Returns the digits of an integer beyond the range of int64, or null.
  [[nodiscard]] const std::string* large_integer() const;
  /// Returns a number as double; nullopt for other types.
  [[nodiscard]] std::optional<double> real() const;
  [[nodiscard]] const Text* text() const;
  [[nodiscard]] const List* list() const;
  [[nodiscard]] const Dict* dict() const;
  [[nodiscard]] Object* object() const;
  template <class T>
  [[nodiscard]] T* object_as() const {
    return dynamic_cast<T*>(object());
  }
  [[nodiscard]] const Variant& variant() const { return v_; }

  /// Python's bool(x).
  [[nodiscard]] bool truth() const;
  /// Python's type(x).__name__.
  [[nodiscard]] std::string type_name() const;
  /// The reason why an undefined value cannot be used: "'x' is undefined".
  [[nodiscard]] std::string why_undefined() const;
  /// The size of lists and dicts with all they contain. Other types have depth 0.
  [[nodiscard]] Extent extent() const;

 private:
  Variant v_;
};

/// Lists, tuples and what else Python shows as a sequence of values.
struct List {
  enum class Kind : std::uint8_t { List, Tuple, Range, DictKeys, DictValues, DictItems };
  static constexpr int kDeepest = 100;

  /// Throws Failure if that makes it too deep.
  explicit List(std::vector<Value> values, Kind k = Kind::List, std::string shown_as = {});

  std::vector<Value> items;
  Kind kind;
  std::string range;  ///< how a range is printed: "range(0, 3)"
  Extent extent;
  std::shared_ptr<const Budget::Loan> loan = {};  ///< memory that is given back on destruction
  /// Python allows list[i], and len(x) of all kinds.
  [[nodiscard]] bool indexable() const { return kind <= Kind::Range; }
};

/// Keeps the order of insertion. Keys are compared as Python does: 1, 1.0 and true are the same
/// key.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  /// Null if absent. Throws Failure for a key that cannot be one (a list, say).
  [[nodiscard]] const Value* find(const Value& key) const;
  [[nodiscard]] const Value* find(std::string_view key) const;
  /// Adds or replaces; throws Failure for a bad key or if that makes the dict too deep.
  void set(const Value& key, Value value);
  void clear();
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] const Extent& extent() const { return extent_; }

 private:
  [[nodiscard]] const Value* find_canonical(const std::string& key) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t> index_;  // by canonical key
  Extent extent_{1, 2};
};

struct Context;  // tokenizer/jinja/builtins/call.h
struct Arguments;

/// Everything else: functions, namespaces, the loop variable, generators.
class Object : public std::enable_shared_from_this<Object> {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  [[nodiscard]] virtual std::string type_name() const = 0;
  /// The text printed for the object, without the addresses that Python would show.
  [[nodiscard]] virtual Text shown() const { return {"<" + type_name() + " object>", true}; }
  /// Returns nullopt if the object has no such attribute.
  [[nodiscard]] virtual std::optional<Value> attribute(std::string_view) { return std::nullopt; }
  [[nodiscard]] virtual bool callable() const { return false; }
  virtual Value call(Context& context, const Arguments& arguments);
};

/// namespace(…): the one thing that templates can change.
class Namespace final : public Object {
 public:
  [[nodiscard]] std::string type_name() const override { return "Namespace"; }
  [[nodiscard]] Text shown() const override;
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override;
  Dict fields;
};

/// The result of map, select and similar filters: it can be walked once and has no length.
class Generator final : public Object {
 public:
  explicit Generator(std::vector<Value> values) : items(std::move(values)) {}
  [[nodiscard]] std::string type_name() const override { return "generator"; }
  std::vector<Value> items;
  std::size_t next = 0;
};

/// Python's str(x): what {{ x }} prints. An undefined value gives "". The cost is the value's
/// weight.
Text to_text(const Value& value);
/// Python's repr(x), which str() of a list uses for its elements. A namespace, which may hold
/// itself, is not shown in full.
Text repr(const Value& value);
/// Python's repr of a float.
std::string float_text(double value);

}  // namespace cria::jinja
