#include "tests/fuzz/json_mutator.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/fuzz/gguf_mutator.h"

namespace cria::fuzz {
namespace {

using AnyJson = nlohmann::ordered_json;

void collect(AnyJson& json, std::vector<AnyJson*>& nodes) {
  nodes.push_back(&json);
  if (json.is_structured())
    for (AnyJson& each : json) collect(each, nodes);
}

AnyJson odd_value(Random& random) {
  const float number = odd_float(random);
  switch (random() % 10) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return odd_number(random);
    case 3:
      return -static_cast<std::int64_t>(random() % 100);
    case 4:
      return std::isfinite(number) ? number : 1e38F;
    case 5:
      return "";
    case 6:
      return AnyJson::array();
    case 7:
      return AnyJson::object();
    case 8:
      return static_cast<std::uint64_t>(random() % 300);
    default:
      return "a";
  }
}

void change(AnyJson& node, const std::vector<AnyJson*>& nodes, Random& random) {
  const std::size_t which = node.empty() || node.is_primitive() ? 0 : random() % node.size();
  switch (random() % 6) {
    case 0:
      node = odd_value(random);
      break;
    case 1:
      node = AnyJson(*nodes[random() % nodes.size()]);
      break;
    case 2:
      if (node.is_array() && !node.empty())
        node.erase(which);
      else if (node.is_object() && !node.empty())
        node.erase(std::next(node.begin(), static_cast<std::ptrdiff_t>(which)));
      break;
    case 3:
      if (node.is_array() && node.size() < 1000)
        node.push_back(node.empty() ? odd_value(random) : AnyJson(node[which]));
      else if (node.is_object())
        node["k" + std::to_string(random() % 4)] = odd_value(random);
      break;
    case 4:
      if (node.is_number_integer())  // the largest and the smallest become each other
        node = static_cast<std::int64_t>(static_cast<std::uint64_t>(node.get<std::int64_t>()) +
                                         random() % 5 - 2);
      break;
    default:
      if (node.is_string()) {
        auto text = node.get<std::string>();
        text.insert(random() % (text.size() + 1), random() % 2 == 0 ? "\xE2\x96\x81" : "<0x41>");
        node = text;
      }
  }
}

}  // namespace

std::string mutate_json(std::string_view input, Random& random, std::size_t) {
  AnyJson json = AnyJson::parse(input, nullptr, false);
  if (json.is_discarded()) return "";
  for (std::size_t n = 1 + random() % 3; n > 0; --n) {
    std::vector<AnyJson*> nodes;
    collect(json, nodes);
    change(*nodes[random() % nodes.size()], nodes, random);
  }
  return json.dump(-1, ' ', false, AnyJson::error_handler_t::replace);
}

}  // namespace cria::fuzz
