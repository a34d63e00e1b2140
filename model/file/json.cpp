#include "model/file/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "model/error.h"
#include "model/file/mapping.h"
#include "model/plural.h"

namespace cria {
namespace {

Error repeated_key(const std::string& file, const std::string& key) {
  return {file, "a key stands twice in one JSON object", "key " + key};
}

/// Checks a text's events against the limits. The library's own callback while it builds values
/// would scan an array or object at the end of each of its members.
template <class Value>
class Guard final : public nlohmann::json_sax<Value> {
 public:
  using Base = nlohmann::json_sax<Value>;
  Guard(const std::string& file, const JsonLimits& limits) : file_(file), limits_(limits) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(typename Base::number_integer_t) override { return count(); }
  bool number_unsigned(typename Base::number_unsigned_t) override { return count(); }
  bool number_float(typename Base::number_float_t, const std::string&) override { return count(); }
  bool string(std::string&) override { return count(); }
  bool binary(typename Base::binary_t&) override { return count(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool key(std::string& key) override {
    if (!open_.back().insert(key).second) throw repeated_key(file_, key);
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (dynamic_cast<const typename Value::parse_error*>(&error) != nullptr)
      throw Error(file_, "is not JSON", json_fault(error));
    throw Error(file_,
                std::string("cannot be read as JSON: ") + error.what());  // a number out of range
  }

 private:
  bool count() {
    if (++values_ > limits_.values)
      throw Error(file_,
                  "too many JSON values: expected at most " + std::to_string(limits_.values));
    return true;
  }
  bool open() {
    if (open_.size() >= limits_.depth)
      throw Error(file_, "JSON is nested too deeply: expected at most " +
                             std::to_string(limits_.depth) + " levels");
    open_.emplace_back();
    return count();
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& file_;
  const JsonLimits& limits_;
  std::size_t values_ = 0;
  std::vector<std::set<std::string, std::less<>>>
      open_;  // keys of every array (none) or object that is open
};

/// Builds values of a text's events. Large integers become binary values.
class ExactBuilder final : public nlohmann::json_sax<Json> {
 public:
  ExactBuilder(Json& root, bool unique) : root_(root), unique_(unique) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const std::string& text) override {
    if (text.find_first_of(".eE") != std::string::npos) return add(value);
    return add(Json::binary({text.begin(), text.end()}));
  }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool key(std::string& key) override {
    Json& object = *open_.back();
    const std::size_t before = object.size();
    member_ = &object[key];
    if (unique_ && object.size() == before) throw repeated_key("", key);
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (const auto* bad = dynamic_cast<const Json::parse_error*>(&error)) throw *bad;
    if (const auto* bad = dynamic_cast<const Json::out_of_range*>(&error)) throw *bad;
    throw error;
  }

 private:
  Json& put(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *member_ = std::move(value);
    return open_.back()->emplace_back(std::move(value));
  }
  bool add(Json value) {
    put(std::move(value));
    return true;
  }
  bool open(Json container) {
    open_.push_back(&put(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json& root_;
  const bool unique_;        // keys of an object
  Json* member_ = nullptr;   // the value of the last key
  std::vector<Json*> open_;  // inside of each other
};

void print_exact(const Json& json, int indent, std::size_t level, std::string& out) {
  constexpr auto kReplace = Json::error_handler_t::replace;
  if (json.is_binary()) {
    out.append(json.get_binary().begin(), json.get_binary().end());
    return;
  }
  if (!json.is_structured() || json.empty()) {
    out += json.dump(-1, ' ', false, kReplace);
    return;
  }
  const auto begin_line = [&](std::size_t at) {
    if (indent >= 0) out.append("\n").append(at * static_cast<std::size_t>(indent), ' ');
  };
  out += json.is_object() ? '{' : '[';
  bool first = true;
  for (auto at = json.begin(); at != json.end(); ++at, first = false) {
    if (!first) out += ',';
    begin_line(level + 1);
    if (json.is_object())
      out.append(Json(at.key()).dump(-1, ' ', false, kReplace)).append(indent >= 0 ? ": " : ":");
    print_exact(*at, indent, level + 1, out);
  }
  begin_line(level);
  out += json.is_object() ? '}' : ']';
}

template <class Value>
Value parse_guarded(std::string_view text, const std::string& file, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    throw Error(file, "JSON is too large: expected at most " + counted(limits.bytes, "byte") +
                          ", got " + std::to_string(text.size()));
  Guard<Value> guard(file, limits);
  Value::sax_parse(text, &guard);
  return Value::parse(text);
}

// Replaces numbers that JSON lacks, outside of strings.
std::string without_special_numbers(std::string_view text) {
  std::string out;
  bool quoted = false;
  while (!text.empty()) {
    std::size_t length = quoted && text[0] == '\\' ? std::min<std::size_t>(2, text.size()) : 1;
    if (text[0] == '"') quoted = !quoted;
    bool special = false;
    for (const std::string_view number : {"-Infinity", "Infinity", "NaN"}) {
      if (quoted || special || !text.starts_with(number)) continue;
      special = true;
      length = number.size();
    }
    out += special ? "null" : text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

constexpr const char* kJsonFile = "a JSON file";

std::string_view text_of(const Mapping& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

Json try_json(std::string_view text) { return Json::parse(text, nullptr, false); }

bool is_json(std::string_view text) { return Json::accept(text); }

std::string json_fault(const std::exception& error) {
  const auto* const fault = dynamic_cast<const Json::parse_error*>(&error);
  if (fault == nullptr) return error.what();
  const std::string where = "at byte " + std::to_string(fault->byte);
  std::string_view text =
      error.what();  // "… while parsing value - unexpected ']'; last read: '[1,]'"
  const std::size_t cause = text.find(" - ");
  if (cause == std::string_view::npos) return where;
  text.remove_prefix(cause + 3);
  return where + ": " + std::string(text.substr(0, text.find("; last read")));
}

Json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  return parse_guarded<Json>(text, file, limits);
}

SortedJson parse_sorted_json(std::string_view text, const std::string& file,
                             const JsonLimits& limits) {
  return parse_guarded<SortedJson>(text, file, limits);
}

Json parse_exact_json(std::string_view text, bool throws) {
  Json json;
  ExactBuilder builder(json, throws);
  try {
    Json::sax_parse(text, &builder);
  } catch (const Json::exception&) {
    if (throws) throw;
    return Json::value_t::discarded;
  }
  return json;
}

std::string exact_json_text(const Json& json, int indent) {
  std::string text;
  print_exact(json, indent, 0, text);
  return text;
}

SortedJson read_json(const std::string& path, const JsonLimits& limits) {
  const Mapping file(path, MapMode::Mmap, kJsonFile);
  return parse_sorted_json(text_of(file), path, limits);
}

SortedJson read_python_json(const std::string& path, const JsonLimits& limits) {
  const Mapping file(path, MapMode::Mmap, kJsonFile);
  if (file.bytes().size() > limits.bytes) return parse_sorted_json(text_of(file), path, limits);
  return parse_sorted_json(without_special_numbers(text_of(file)), path, limits);
}

}  // namespace cria
