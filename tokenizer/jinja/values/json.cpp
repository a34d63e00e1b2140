#include "tokenizer/jinja/values/json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "model/file/utf8.h"
#include "tokenizer/jinja/builtins/builtins.h"

namespace cria::jinja {

namespace {

void check_depth(std::size_t depth) {
  if (depth > List::kDeepest) throw Failure("JSON is nested too deeply");
}

Value from_unsigned(std::uint64_t n) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  return n <= kLargest ? Value(static_cast<std::int64_t>(n))
                       : Value::large_integer(std::to_string(n));
}

Value convert(const Json& json, std::size_t depth) {
  check_depth(depth);
  if (json.is_string()) return Text(json.get_ref<const std::string&>(), false);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned()) return from_unsigned(json.get<std::uint64_t>());
  if (json.is_number()) return json.get<std::int64_t>();
  if (json.is_binary())  // see parse_exact_json()
    return Value::large_integer({json.get_binary().begin(), json.get_binary().end()});
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
  Value take() { return std::move(whole_); }

  bool null() override { return add(None{}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(std::int64_t{value}); }
  bool number_unsigned(number_unsigned_t number) override { return add(from_unsigned(number)); }
  bool number_float(number_float_t value, const std::string& text) override {
    const bool is_integer = text.find_first_of(".eE") == std::string::npos;
    return add(is_integer ? Value::large_integer(text) : Value(value));
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
    throw Failure(std::string("cannot be read as JSON: ") + error.what());  // a number out of range
  }

 private:
  struct Container {
    bool is_object;
    std::vector<Value> items;
    Dict dict;
    Value key;  // key of the next member
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

  Value whole_;
  std::vector<Container> open_;  // inside of each other
};

}  // namespace

Value from_json(const Json& json) { return convert(json, 0); }

Value parse_json(std::string_view text) {
  Builder builder;
  Json::sax_parse(text, &builder);
  return builder.take();
}

namespace {

std::string unit_escape(std::uint32_t unit) {
  char out[8];
  std::snprintf(out, sizeof out, "\\u%04x", unit & 0xFFFFU);
  return out;
}

std::string escaped(char32_t c) {
  constexpr std::string_view kPlain = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  if (c < 0x80) {
    if (const std::size_t i = kPlain.find(static_cast<char>(c)); i != std::string_view::npos)
      return {'\\', kLetters[i]};
  }
  if (c < 0x10000) return unit_escape(c);
  return unit_escape(0xD800 + ((c - 0x10000) >> 10)) +
         unit_escape(0xDC00 + ((c - 0x10000) & 0x3FF));
}

class Writer {
 public:
  Writer(Context& context, const JsonStyle& style) : context_(context), style_(style) {}

  void write(const Value& value) {
    context_.budget.step();
    if (const Text* text = value.text()) return write_text(*text);
    if (const Dict* dict = value.dict()) return write_dict(*dict);
    if (const List* list = value.list(); list != nullptr && list->kind <= List::Kind::Tuple)
      return write_list(*list);
    if (value.is_none()) return put("null");
    if (value.is_bool()) return put(value.truth() ? "true" : "false");
    if (value.is_number()) return put(number(value));
    throw Failure("Object of type " + value.type_name() + " is not JSON serializable");
  }
  Text take() { return std::move(out_); }

 private:
  static std::string number(const Value& value) {
    if (const auto* const digits = value.large_integer()) return *digits;
    if (!value.is_float()) return std::to_string(*value.integer());
    const double real = *value.real();
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return float_text(real);
  }

  void put(std::string_view text) {
    context_.budget.take(text.size());
    out_.append(text, true);
  }
  void put(const Text& text) {
    context_.budget.take(text.size());
    out_.append(text);
  }

  void write_text(const Text& text) {
    context_.budget.take(text.size());
    const std::string_view bytes = text.bytes();
    put("\"");
    std::size_t done = 0;
    each_char(bytes, [&](const Utf8Char& c, std::size_t at) {
      const bool plain =
          !c.valid || (c.code_point >= 0x20 && c.code_point != '"' && c.code_point != '\\' &&
                       (c.code_point < 0x7F || !style_.ensure_ascii));
      if (plain) return;
      out_.append(text, done, at);
      const std::string escape = escaped(c.code_point);
      context_.budget.take(escape.size());
      out_.append(escape, text.trusted_at(at));
      done = at + c.bytes;
    });
    out_.append(text, done, bytes.size());
    put("\"");
  }

  void new_line() {
    if (!style_.indent) return;
    put("\n");
    for (int i = 0; i < level_; ++i) put(*style_.indent);
  }

  /// Calls write_item(i) for each of n items between brackets.
  template <class WriteItem>
  void items(const char* open, const char* close, std::size_t n, WriteItem&& write_item) {
    put(open);
    ++level_;
    for (std::size_t i = 0; i < n; ++i) {
      if (i != 0) put(style_.between_items);
      new_line();
      write_item(i);
    }
    --level_;
    if (n != 0) new_line();
    put(close);
  }

  void write_list(const List& list) {
    items("[", "]", list.items.size(), [&](std::size_t i) { write(list.items[i]); });
  }

  static Text key_text(const Value& key) {
    if (const Text* text = key.text()) return *text;
    if (key.is_none()) return {"null", true};
    if (key.is_bool()) return {key.truth() ? "true" : "false", true};
    if (key.is_number()) return {number(key), true};
    throw Failure("keys must be str, int, float, bool or None, not " + key.type_name());
  }

  void write_dict(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return less(context_, a->first, b->first);
      });
    items("{", "}", entries.size(), [&](std::size_t i) {
      write_text(key_text(entries[i]->first));
      put(style_.after_key);
      write(entries[i]->second);
    });
  }

  Context& context_;
  const JsonStyle& style_;
  Text out_;
  int level_ = 0;
};

}  // namespace

Text json_text(Context& context, const Value& value, const JsonStyle& style) {
  Writer writer(context, style);
  writer.write(value);
  return writer.take();
}

Value tojson(Context& context, const Value& value, const Arguments& arguments) {
  const Bound args("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = args.truth(0, false);
  if (args.has(1) && !args[1].is_none()) {
    if (args[1].text() != nullptr) {
      style.indent = *args[1].text();
    } else {
      const std::size_t width = args.size(1, 0);
      context.budget.take(width);
      style.indent = Text(std::string(width, ' '), true);
    }
    style.between_items = Text(",", true);
  }
  if (args.has(2) && !args[2].is_none()) {
    const List* pair = args[2].list();
    if (pair == nullptr || pair->items.size() != 2 || pair->items[0].text() == nullptr ||
        pair->items[1].text() == nullptr)
      throw Failure("tojson(): argument 'separators': expected two texts");
    style.between_items = *pair->items[0].text();
    style.after_key = *pair->items[1].text();
  }
  style.sort_keys = args.truth(3, false);
  return json_text(context, value, style);
}

}  // namespace cria::jinja
