#include "model/file/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "model/error.h"
#include "model/file/mapping.h"
#include "model/plural.h"

namespace cria {
namespace {

/// Watches a parser's events; throws where a limit is exceeded.
template <class Json>
class Guard {
 public:
  Guard(const std::string& file, const JsonLimits& limits) : file_(file), limits_(limits) {}

  bool operator()(int depth, typename Json::parse_event_t event, const Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        keys_.emplace_back();
        [[fallthrough]];
      case Json::parse_event_t::array_start:
        if (static_cast<std::size_t>(depth) >= limits_.depth)
          throw Error(file_, "JSON is nested too deeply: expected at most " + std::to_string(limits_.depth) +
                                 " levels");
        count();
        break;
      case Json::parse_event_t::key:
        if (!keys_.back().insert(parsed.template get_ref<const std::string&>()).second)
          throw Error(file_, "a key stands twice in one JSON object",
                      "key " + parsed.template get<std::string>());
        break;
      case Json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case Json::parse_event_t::value:
        count();
        break;
      case Json::parse_event_t::array_end:
        break;
    }
    return true;
  }

 private:
  void count() {
    if (++values_ > limits_.values)
      throw Error(file_, "too many JSON values: expected at most " + std::to_string(limits_.values));
  }

  const std::string& file_;
  const JsonLimits& limits_;
  std::size_t values_ = 0;
  std::vector<std::set<std::string, std::less<>>> keys_;  // of every object that is open
};

template <class Json>
Json parse_guarded(std::string_view text, const std::string& file, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    throw Error(file, "JSON is too large: expected at most " + counted(limits.bytes, "byte") + ", got " +
                          std::to_string(text.size()));
  Guard<Json> guard(file, limits);
  try {
    return Json::parse(text, [&guard](int depth, typename Json::parse_event_t event, const Json& parsed) {
      return guard(depth, event, parsed);
    });
  } catch (const typename Json::parse_error& error) {
    throw Error(file, "is no JSON", "at byte " + std::to_string(error.byte));
  } catch (const typename Json::exception& error) {  // a number out of range
    throw Error(file, std::string("is no JSON that can be read: ") + error.what());
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  return parse_guarded<nlohmann::json>(text, file, limits);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& file,
                                          const JsonLimits& limits) {
  return parse_guarded<nlohmann::ordered_json>(text, file, limits);
}

nlohmann::json read_json(const std::string& path, const JsonLimits& limits) {
  const Mapping file(path, MapMode::Mmap, "a JSON file");
  return parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path, limits);
}

}  // namespace cria
