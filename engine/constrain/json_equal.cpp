#include "engine/constrain/json_equal.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace cria {
namespace {

using Json = nlohmann::ordered_json;
using Member = std::pair<std::string_view, const Json*>;

std::vector<Member> by_name(const Json& object) {
  std::vector<Member> members;
  for (const auto& [name, value] : object.items()) members.emplace_back(name, &value);
  std::ranges::sort(members, {}, &Member::first);
  return members;
}

bool same_member(const Member& a, const Member& b) {
  return a.first == b.first && same_value(*a.second, *b.second);
}

}  // namespace

bool same_value(const Json& a, const Json& b) {
  if (a.is_array() && b.is_array()) return std::ranges::equal(a, b, same_value);
  if (!a.is_object() || !b.is_object()) return a == b;
  return a.size() == b.size() && std::ranges::equal(by_name(a), by_name(b), same_member);
}

}  // namespace cria
