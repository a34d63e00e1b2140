#include "tools/serve/http/route_table.h"

namespace cria::serve {
namespace {

/// Whether the path is the route's; `parameter` becomes what stands for its "{…}".
bool matches(std::string_view pattern, std::string_view path, std::string& parameter) {
  const std::size_t brace = pattern.find('{');
  if (brace == std::string_view::npos) return path == pattern;
  if (path.size() <= brace || !path.starts_with(pattern.substr(0, brace))) return false;
  parameter = path.substr(brace);
  return true;
}

}  // namespace

RouteTable::Match RouteTable::find(std::string_view method, std::string_view path) const {
  Match match;
  std::vector<std::string_view> methods;
  for (const Route& route : routes_) {
    std::string parameter;
    if (!matches(route.path, path, parameter)) continue;
    methods.push_back(route.method);
    if (route.method == "GET") methods.emplace_back("HEAD");
    if (match.route == nullptr &&
        (method == route.method || (method == "HEAD" && route.method == "GET"))) {
      match.route = &route;
      match.parameter = std::move(parameter);
    }
  }
  if (!methods.empty()) methods.emplace_back("OPTIONS");
  for (const std::string_view name : methods)
    if (match.allowed.find(name) == std::string::npos)
      match.allowed.append(match.allowed.empty() ? "" : ", ").append(name);
  return match;
}

}  // namespace cria::serve
