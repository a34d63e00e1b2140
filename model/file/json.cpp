#include "model/file/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "model/error.h"
#include "model/file/mapping.h"
#include "model/plural.h"

namespace cria {
namespace {

/// Checks a text's events against the limits. The library's own callback while it builds values
/// would scan an array or object at the end of each of its members.
template <class Json>
class Guard final : public nlohmann::json_sax<Json> {
 public:
  using Base = nlohmann::json_sax<Json>;
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
    if (!open_.back().insert(key).second)
      throw Error(file_, "a key stands twice in one JSON object", "key " + key);
    return true;
  }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (dynamic_cast<const typename Json::parse_error*>(&error) != nullptr)
      throw Error(file_, "is not JSON", "at byte " + std::to_string(at));
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

template <class Json>
Json parse_guarded(std::string_view text, const std::string& file, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    throw Error(file, "JSON is too large: expected at most " + counted(limits.bytes, "byte") +
                          ", got " + std::to_string(text.size()));
  Guard<Json> guard(file, limits);
  Json::sax_parse(text, &guard);
  return Json::parse(text);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& file,
                          const JsonLimits& limits) {
  return parse_guarded<nlohmann::json>(text, file, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& file,
                                          const JsonLimits& limits) {
  return parse_guarded<nlohmann::ordered_json>(text, file, limits);
}

nlohmann::json read_json(const std::string& path, const JsonLimits& limits) {
  const Mapping file(path, MapMode::Mmap, "a JSON file");
  return parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path,
                    limits);
}

}  // namespace cria
