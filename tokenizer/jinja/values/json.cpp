#include "tokenizer/jinja/values/json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace cria::jinja {
namespace {

using Json = nlohmann::ordered_json;

void check_depth(std::size_t depth) {
  if (depth > List::kDeepest) throw Failure("JSON is nested too deeply");
}

[[noreturn]] void refuse_integer() { throw Failure("an integer is too large: more than 64 bits"); }

Value convert(const Json& json, std::size_t depth) {
  check_depth(depth);
  if (json.is_string()) return Text(json.get_ref<const std::string&>(), false);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned()) return Value::from_unsigned(json.get<std::uint64_t>());
  if (json.is_number()) return json.get<std::int64_t>();
  if (json.is_array()) {
    std::vector<Value> items;
    for (const auto& item : json) items.push_back(convert(item, depth + 1));
    return List(std::move(items));
  }
  if (json.is_object()) {
    Dict dict;
    for (const auto& [key, value] : json.items())
      dict.set(Text(key, false), convert(value, depth + 1));
    return dict;
  }
  return None{};
}

/// Makes values of a text's events. Ordered objects of the JSON library compare each new key with
/// all before it; a Dict finds them by hash.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(LargeIntegers large) : large_(large) {}
  Value take() { return std::move(whole_); }

  bool null() override { return add(None{}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(std::int64_t{value}); }
  bool number_unsigned(number_unsigned_t number) override {
    const Value value = Value::from_unsigned(number);
    if (large_ == LargeIntegers::Refuse && value.large_integer()) refuse_integer();
    return add(value);
  }
  bool number_float(number_float_t value, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos) refuse_integer();
    return add(value);
  }
  bool string(std::string& value) override { return add(Text(std::move(value), false)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool key(std::string& key) override {
    open_.back().key = Text(std::move(key), false);
    return true;
  }
  bool end_object() override { return close(std::move(open_.back().dict)); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_array() override { return close(List(std::move(open_.back().items))); }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (dynamic_cast<const Json::parse_error*>(&error) != nullptr)
      throw Failure("not JSON (at byte " + std::to_string(at) + ")");
    throw Failure(std::string("is no JSON that can be read: ") +
                  error.what());  // a number out of range
  }

 private:
  struct Container {
    bool is_object;
    std::vector<Value> items;
    Dict dict;
    Value key;  // of the member that comes next
  };

  bool add(Value value) {
    check_depth(open_.size());
    if (open_.empty())
      whole_ = std::move(value);
    else if (open_.back().is_object)
      open_.back().dict.set(open_.back().key, std::move(value));
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }
  bool open(bool is_object) {
    check_depth(open_.size());
    open_.push_back({is_object, {}, {}, {}});
    return true;
  }
  bool close(Value container) {
    open_.pop_back();
    return add(std::move(container));
  }

  LargeIntegers large_;
  Value whole_;
  std::vector<Container> open_;  // inside of each other
};

}  // namespace

Value from_json(const Json& json) { return convert(json, 0); }

Value parse_json(std::string_view text, LargeIntegers large) {
  Builder builder(large);
  Json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace cria::jinja
