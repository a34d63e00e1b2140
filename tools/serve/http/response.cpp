#include "tools/serve/http/response.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/error.h"
#include "model/file/json.h"

namespace cria::serve {

namespace {

std::string_view anthropic_type(int status) {
  static constexpr std::pair<int, std::string_view> kTypes[] = {
      {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
      {413, "request_too_large"},    {503, "overloaded_error"}, {500, "api_error"}};
  for (const auto& [known, type] : kTypes)
    if (known == status) return type;
  return status < 500 ? "invalid_request_error" : "api_error";
}

std::string error_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Protocol protocol_of(std::string_view path) {
  if (path.starts_with("/v1/messages") || path.starts_with("/messages")) return Protocol::Messages;
  return path.starts_with("/api/") ? Protocol::Ollama : Protocol::OpenAi;
}

std::string error_body(const Request& request, int status, std::string_view message,
                       std::string_view code, std::string_view param) {
  const Protocol protocol = protocol_of(request.path);
  if (protocol == Protocol::Ollama) return error_text({{"error", printable(message)}});
  if (protocol == Protocol::Messages) {
    Json said = {{"type", anthropic_type(status)}, {"message", printable(message)}};
    if (code == "thread_unsupported_request")  // clients then send the whole conversation
      said["details"] = {{"error_code", code}, {"unsupported", Json::array({param})}};
    return error_text({{"type", "error"}, {"error", std::move(said)}, {"request_id", request.id}});
  }
  Json error = {{"message", printable(message)},
                {"type", status < 500 ? "invalid_request_error" : "server_error"},
                {"param", nullptr},
                {"code", code}};
  if (!param.empty()) error["param"] = param;
  return error_text({{"error", std::move(error)}});
}

namespace {

std::string_view reason(int status) {
  static constexpr std::pair<int, std::string_view> kReasons[] = {
      {200, "OK"},
      {204, "No Content"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
  };
  const auto found = std::ranges::find(kReasons, status, &std::pair<int, std::string_view>::first);
  return found == std::end(kReasons) ? "Status" : found->second;
}

/// "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale.
std::string date_text() {
  static constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  const auto two = [](int n) { return std::string(n < 10 ? "0" : "") + std::to_string(n); };
  return std::string(kDays.at(static_cast<std::size_t>(parts.tm_wday))) + ", " +
         two(parts.tm_mday) + " " + kMonths.at(static_cast<std::size_t>(parts.tm_mon)) + " " +
         std::to_string(parts.tm_year + 1900) + " " + two(parts.tm_hour) + ":" + two(parts.tm_min) +
         ":" + two(parts.tm_sec) + " GMT";
}

void add_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) out += c == '\r' || c == '\n' ? ' ' : c;
  out += "\r\n";
}

}  // namespace

std::string head_text(const ResponseHead& head, const Headers& more) {
  std::string out = "HTTP/1.1 " + std::to_string(head.status) + " ";
  out.append(reason(head.status)).append("\r\n");
  add_field(out, "Date", date_text());
  if (!head.content_type.empty()) add_field(out, "Content-Type", head.content_type);
  if (head.length && head.status != 204)
    add_field(out, "Content-Length", std::to_string(*head.length));
  if (head.chunked) add_field(out, "Transfer-Encoding", "chunked");
  add_field(out, "X-Content-Type-Options", "nosniff");
  add_field(out, "Cache-Control", "no-store");
  if (!head.id.empty()) add_field(out, "X-Request-Id", head.id);
  for (const auto& [name, value] : more) add_field(out, name, value);
  if (head.close) add_field(out, "Connection", "close");
  if (!head.close && head.keep_alive_said) add_field(out, "Connection", "keep-alive");
  return out += "\r\n";
}

std::string chunk_text(std::string_view data) {
  char size[20];
  const auto end = std::to_chars(std::begin(size), std::end(size), data.size(), 16).ptr;
  std::string out(size, end);
  return out.append("\r\n").append(data).append("\r\n");
}

namespace {

/// True if the path matches the route; `parameter` becomes the part that "{…}" or "<…>" matches.
bool matches(std::string_view pattern, std::string_view path, std::string& parameter) {
  const std::size_t begin = pattern.find_first_of("{<");
  if (begin == std::string_view::npos) return path == pattern;
  if (path.size() <= begin || !path.starts_with(pattern.substr(0, begin))) return false;
  parameter = path.substr(begin);
  return pattern[begin] == '{' || parameter.find('/') == std::string::npos;
}

}  // namespace

RouteTable::Match RouteTable::find(std::string_view method, std::string_view path) const {
  Match match;
  std::vector<std::string_view> methods;
  const bool exact = std::ranges::any_of(routes_, [path](const Route& route) {
    std::string parameter;
    return matches(route.path, path, parameter) && parameter.empty();
  });
  for (const Route& route : routes_) {
    std::string parameter;
    if (!matches(route.path, path, parameter) || (exact && !parameter.empty())) continue;
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
