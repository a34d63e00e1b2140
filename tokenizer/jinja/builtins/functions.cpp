#include <algorithm>
#include <utility>

#include "model/file/utf8.h"
#include "model/plural.h"
#include "tokenizer/jinja/builtins/builtins.h"

namespace cria::jinja {

namespace {

class Function final : public Object {
 public:
  Function(std::string name, Native native) : name_(std::move(name)), native_(std::move(native)) {}
  [[nodiscard]] std::string type_name() const override { return "function"; }
  [[nodiscard]] Text shown() const override { return {"<function " + name_ + ">", true}; }
  [[nodiscard]] bool callable() const override { return true; }
  Value call(Context& context, const Arguments& arguments) override {
    return native_(context, arguments);
  }

 private:
  std::string name_;
  Native native_;
};

std::uint64_t weight(const Value& value) {
  std::uint64_t sum = value.extent().weight;
  if (const auto* const space = value.object_as<Namespace>()) sum += space->fields.extent().weight;
  return sum;
}

std::vector<Value> characters(const Text& text) {
  std::vector<Value> out;
  each_char(text.bytes(), [&](const Utf8Char& c, std::size_t at) {
    out.emplace_back(text.part(at, at + c.bytes));
  });
  return out;
}

}  // namespace

Value function(std::string name, Native native) {
  return std::shared_ptr<Object>(std::make_shared<Function>(std::move(name), std::move(native)));
}

void require_defined(const Value& value) {
  if (value.is_undefined()) throw Failure(value.why_undefined());
}

// A text is only copied; the printed form of other values can be much larger than they are.
Text Context::text(const Value& value) const {
  if (const Text* const text = value.text()) {
    budget.read(text->size());
    return *text;
  }
  budget.take(weight(value));
  return to_text(value);
}

Text Context::escaped(const Text& text) const {
  budget.take(text.size() * 4);
  return jinja::escaped(text);
}

Text Context::shown(const Value& value) const {
  budget.take(weight(value));
  return repr(value);
}

std::vector<Value> Context::elements(const Value& value) const {
  if (value.is_undefined()) return {};
  if (const List* list = value.list()) {
    budget.take_values(list->items.size());
    return list->items;
  }
  if (const Text* text = value.text()) {
    budget.take_values(text->size() * 2);
    return characters(*text);
  }
  if (const Dict* dict = value.dict()) {
    budget.take_values(dict->entries().size());
    std::vector<Value> keys;
    for (const auto& entry : dict->entries()) keys.push_back(entry.first);
    return keys;
  }
  if (auto* const generator = value.object_as<Generator>()) {
    budget.take_values(generator->items.size());
    const auto begin = generator->items.begin() + static_cast<std::ptrdiff_t>(generator->next);
    generator->next = generator->items.size();
    return {begin, generator->items.end()};
  }
  throw Failure("'" + value.type_name() + "' object is not iterable");
}

Bound::Bound(std::string_view function, const Arguments& arguments,
             std::initializer_list<const char*> names, std::size_t required)
    : function_(function), names_(names), values_(names.size()) {
  if (arguments.positional.size() > names_.size())
    throw Failure(function_ + "() takes at most " + counted(names_.size(), "argument") + ", got " +
                  std::to_string(arguments.positional.size()));
  std::copy(arguments.positional.begin(), arguments.positional.end(), values_.begin());
  for (const auto& [key, value] : arguments.named) {
    const std::string& name = key.bytes();
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end())
      throw Failure(function_ + "() got an unexpected keyword argument '" + name + "'");
    std::optional<Value>& slot = values_[static_cast<std::size_t>(found - names_.begin())];
    if (slot) throw Failure(function_ + "() got multiple values for argument '" + name + "'");
    slot = value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (!values_[i]) throw Failure(function_ + "() is missing its argument '" + names_[i] + "'");
  }
}

void Bound::wrong_type(std::size_t i, const char* expected) const {
  require_defined((*this)[i]);
  throw Failure(function_ + "(): argument '" + names_[i] + "': expected " + expected + ", got " +
                (*this)[i].type_name());
}

std::int64_t Bound::integer(std::size_t i, std::int64_t otherwise) const {
  if (!has(i)) return otherwise;
  const auto integer = (*this)[i].integer();
  if (!integer) wrong_type(i, "int");
  return *integer;
}

std::size_t Bound::size(std::size_t i, std::int64_t otherwise) const {
  return static_cast<std::size_t>(std::max<std::int64_t>(0, integer(i, otherwise)));
}

const Text& Bound::text(std::size_t i) const {
  const Text* text = (*this)[i].text();
  if (text == nullptr) wrong_type(i, "str");
  return *text;
}

Text Bound::text(std::size_t i, const char* otherwise) const {
  return has(i) ? text(i) : Text(otherwise, true);
}

std::optional<Text> Bound::optional_text(std::size_t i) const {
  if (!has(i) || (*this)[i].is_none()) return std::nullopt;
  return text(i);
}

namespace {

constexpr std::int64_t kLongestRange = 100'000;  // as in Jinja's sandbox

Value range(Context& context, const Arguments& arguments) {
  const Bound args("range", arguments, {"start", "stop", "step"}, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    if (args.has(i) && !args[i].integer()) {
      require_defined(args[i]);
      throw Failure("'" + args[i].type_name() + "' object cannot be interpreted as an integer");
    }
  }
  const std::int64_t start = args.has(1) ? args.integer(0, 0) : 0,
                     stop = args.integer(args.has(1) ? 1 : 0, 0), step = args.integer(2, 1);
  if (step == 0) throw Failure("range() arg 3 must not be zero");
  std::vector<Value> out;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<std::int64_t>(out.size()) >= kLongestRange)
      throw Failure("range is too long: expected at most " + std::to_string(kLongestRange) +
                    " elements");
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  auto loan = context.budget.lend_values(out.size());
  std::string shown = "range(" + std::to_string(start) + ", " + std::to_string(stop);
  if (step != 1) shown += ", " + std::to_string(step);
  List list(std::move(out), List::Kind::Range, shown + ")");
  list.loan = std::move(loan);
  return list;
}

Dict make_dict(Context& context, const char* name, const Arguments& arguments) {
  if (arguments.positional.size() > 1)
    throw Failure(std::string(name) + ": expected at most 1 argument");
  Dict out;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (from.dict() != nullptr) {
      context.budget.take_values(from.dict()->entries().size());
      out = *from.dict();
    } else {
      for (const Value& pair : context.elements(from)) {
        const std::vector<Value> two = context.elements(pair);
        if (two.size() != 2)
          throw Failure("a dict is made of pairs, got " + counted(two.size(), "value"));
        context.budget.read(two[0].extent().weight);
        out.set(two[0], two[1]);
      }
    }
  }
  context.budget.take_values(arguments.named.size());
  for (const auto& [key, value] : arguments.named) out.set(key, value);
  return out;
}

Value make_namespace(Context& context, const Arguments& arguments) {
  auto out = std::make_shared<Namespace>();
  context.budget.take_values(8);
  context.namespaces.push_back(out);
  out->fields = make_dict(context, "namespace", arguments);
  for (const auto& field : out->fields.entries()) forbid_loops(field.second);
  return std::shared_ptr<Object>(out);
}

Value raise_exception(Context& context, const Arguments& arguments) {
  const Bound args("raise_exception", arguments, {"message"}, 1);
  throw Failure(context.text(args[0]).bytes());
}

Value strftime_now(Context& context, const Arguments& arguments) {
  const Bound args("strftime_now", arguments, {"format"}, 1);
  const Text& format = args.text(0);
  // The leading byte distinguishes an empty result from one that does not fit.
  const std::string wanted = "x" + format.bytes();
  char buffer[1024];
  const std::size_t n = wanted.find('\0') == std::string::npos
                            ? std::strftime(buffer, sizeof buffer, wanted.c_str(), &context.now)
                            : 0;
  if (n == 0) throw Failure("strftime_now: bad format, or a text of more than 1000 bytes");
  return Text(std::string(buffer + 1, n - 1), format.trusted_at(0));
}

/// One text after the other, round and round.
class Cycler final : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  [[nodiscard]] std::string type_name() const override { return "Cycler"; }
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override {
    if (name == "current") return items_[at_];
    if (name != "next" && name != "reset") return std::nullopt;
    auto self = std::static_pointer_cast<Cycler>(shared_from_this());
    return function(
        std::string(name), [self, next = name == "next"](Context&, const Arguments&) -> Value {
          if (!next) return self->at_ = 0, None{};
          return self->items_[std::exchange(self->at_, (self->at_ + 1) % self->items_.size())];
        });
  }

 private:
  std::vector<Value> items_;
  std::size_t at_ = 0;
};

Value cycler(Context&, const Arguments& arguments) {
  if (arguments.positional.empty()) throw Failure("at least one item has to be provided");
  forbid_holders(arguments.positional);
  return std::shared_ptr<Object>(std::make_shared<Cycler>(arguments.positional));
}

/// "" when it is called first, then its text.
class Joiner final : public Object {
 public:
  explicit Joiner(Value text) : text_(std::move(text)) {}
  [[nodiscard]] std::string type_name() const override { return "Joiner"; }
  [[nodiscard]] bool callable() const override { return true; }
  Value call(Context&, const Arguments&) override {
    return std::exchange(used_, true) ? text_ : Value("");
  }

 private:
  Value text_;
  bool used_ = false;
};

Value joiner(Context&, const Arguments& arguments) {
  const Bound args("joiner", arguments, {"sep"});
  if (args.has(0)) forbid_holders({&args[0], 1});
  return std::shared_ptr<Object>(std::make_shared<Joiner>(args.get(0, ", ")));
}

constexpr std::pair<std::string_view, Value (*)(Context&, const Arguments&)> kFunctions[] = {
    {"cycler", cycler},
    {"dict",
     [](Context& context, const Arguments& arguments) -> Value {
       return make_dict(context, "dict", arguments);
     }},
    {"joiner", joiner},
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now}};

}  // namespace

Value global_function(const std::string& name) {
  const auto* const found =
      std::ranges::find_if(kFunctions, [&](const auto& f) { return f.first == name; });
  return found == std::end(kFunctions) ? Value() : function(name, found->second);
}

}  // namespace cria::jinja
