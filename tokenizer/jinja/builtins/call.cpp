#include "tokenizer/jinja/builtins/call.h"

#include <algorithm>

#include "model/file/utf8.h"
#include "model/plural.h"

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
  const std::string_view bytes = text.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t n = first_char(bytes.substr(at)).bytes;
    out.emplace_back(text.part(at, at + n));
    at += n;
  }
  return out;
}

}  // namespace

Value function(std::string name, Native native) {
  return std::shared_ptr<Object>(std::make_shared<Function>(std::move(name), std::move(native)));
}

void require_defined(const Value& value) {
  if (value.is_undefined()) throw Failure(value.why_undefined());
}

Text Context::text(const Value& value) const {
  budget.take(weight(value));
  return to_text(value);
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

}  // namespace cria::jinja
