#include "tools/serve/http/access.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "model/file/utf8.h"

namespace cria::serve {
namespace {

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

bool is_host_name(std::string_view text) {
  const bool bracketed = text.starts_with('[') && text.ends_with(']');
  const auto good = [bracketed](unsigned char c) {
    return bracketed ? std::isxdigit(c) || c == ':' || c == '.'
                     : std::isalnum(c) || c == '-' || c == '.' || c == '_';
  };
  if (bracketed) text = text.substr(1, text.size() - 2);
  return !text.empty() && std::ranges::all_of(text, good);
}

/// The index of the colon before the port in "host:port" or "[::1]:port", else the text's end.
std::size_t port_start(std::string_view authority) {
  const std::size_t colon = authority.rfind(':');
  return colon == std::string_view::npos || authority.ends_with(']') ? authority.size() : colon;
}

/// The host without its port, lower case; "" if the port is invalid.
std::string host_name(std::string_view authority) {
  const std::size_t at = port_start(authority);
  if (at < authority.size() && !is_port(authority.substr(at + 1))) return "";
  return lower_case(authority.substr(0, at));
}

std::string_view scheme_of(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (origin.starts_with(scheme)) return scheme;
  return "";
}

/// "host:port" in lower case without the port that the scheme stands for.
std::string plain_authority(std::string_view authority, std::string_view scheme) {
  std::string out = lower_case(authority);
  const std::string_view usual = scheme == "https://" ? ":443" : ":80";
  if (out.ends_with(usual)) out.resize(out.size() - usual.size());
  return out;
}

/// pattern: an origin, or "SCHEME://*".
bool allows(std::string_view pattern, std::string_view origin) {
  return pattern == origin ||
         (pattern.ends_with("://*") && origin.starts_with(pattern.substr(0, pattern.size() - 1)));
}

using PaddedKey = std::array<unsigned char, kLongestKey + 2>;  // its length stands at the end

PaddedKey padded(std::string_view key) {
  PaddedKey out{};
  const std::size_t n = std::min(key.size(), kLongestKey);
  std::copy_n(key.begin(), n, out.begin());
  out[kLongestKey] = static_cast<unsigned char>(n & 0xFF);
  out[kLongestKey + 1] =
      static_cast<unsigned char>((n >> 8) | (key.size() > kLongestKey ? 0x80 : 0));
  return out;
}

bool equal_in_fixed_time(const PaddedKey& a, const PaddedKey& b) {
  volatile unsigned char difference = 0;  // so that no compiler ends the loop early
  for (std::size_t i = 0; i < a.size(); ++i) difference = difference | (a[i] ^ b[i]);
  return difference == 0;
}

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](unsigned char c) {
    return std::isalnum(c) || kMarks.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

/// "a, b" with nothing but names of fields in it; else "".
std::string field_names(std::string_view list) {
  std::string out;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!is_token(name)) return "";
    out.append(out.empty() ? "" : ", ").append(name);
  }
  return out;
}

}  // namespace

bool is_origin(std::string_view text) {
  const std::string_view scheme = scheme_of(text);
  if (scheme.empty()) return false;
  text.remove_prefix(scheme.size());
  const std::size_t at = port_start(text);
  return is_host_name(text.substr(0, at)) && (at == text.size() || is_port(text.substr(at + 1)));
}

bool is_origin_pattern(std::string_view text) {
  if (text == "*" || text == "null" || is_origin(text)) return true;
  const std::size_t mark = text.find("://");
  if (mark == std::string_view::npos || !scheme_of(text).empty()) return false;
  const std::string_view scheme = text.substr(0, mark), host = text.substr(mark + 3);
  const bool named = std::ranges::all_of(
      scheme, [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '-' || c == '.'; });
  const std::string as_http = "http://" + std::string(host);
  return !scheme.empty() && std::isalpha(static_cast<unsigned char>(scheme.front())) != 0 &&
         named && (host == "*" || is_origin(as_http));
}

bool is_api_key(std::string_view text) {
  return !text.empty() && text.size() <= kLongestKey &&
         std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7F; });
}

Access::Access(AccessOptions options) : options_(std::move(options)) {
  hosts_ = {"localhost", "127.0.0.1", "[::1]", lower_case(options_.address)};
  for (const std::string& host : options_.allowed_hosts) hosts_.push_back(lower_case(host));
  if (const std::string_view scheme = scheme_of(options_.public_url); !scheme.empty())
    hosts_.push_back(host_name(std::string_view(options_.public_url).substr(scheme.size())));
}

Refusal Access::check_host(std::optional<std::string_view> host) const {
  if (!options_.loopback || !host) return {};
  const std::string name = host_name(*host);
  if (!name.empty() && std::ranges::find(hosts_, name) != hosts_.end()) return {};
  return {403, "the Host header does not name this server (--allowed-host NAME adds a name)",
          "forbidden_host"};
}

Refusal Access::check_origin(std::string_view origin, std::string_view host) const {
  if (origin.empty() || origin == options_.public_url) return {};
  for (const std::string& allowed : options_.cors_origins)
    if (allowed == "*" || allows(allowed, origin)) return {};
  const std::string_view scheme = scheme_of(origin);
  if (!scheme.empty() && !host.empty() &&
      plain_authority(origin.substr(scheme.size()), scheme) == plain_authority(host, scheme))
    return {};
  return {403, "pages of this origin may not use the server (--cors-origin ORIGIN lets them)",
          "forbidden_origin"};
}

Headers Access::cors_fields(std::string_view origin) const {
  if (origin.empty()) return {};
  const std::vector<std::string>& all = options_.cors_origins;
  if (std::ranges::count(all, "*") != 0) return {{"Access-Control-Allow-Origin", "*"}};
  if (std::ranges::none_of(all, [origin](const auto& one) { return allows(one, origin); }))
    return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
}

Headers Access::preflight_fields(std::string_view origin, std::string_view asked) const {
  Headers fields = cors_fields(origin);
  if (fields.empty()) return fields;
  fields.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
  if (std::string names = field_names(asked); !names.empty())
    fields.emplace_back("Access-Control-Allow-Headers", std::move(names));
  fields.emplace_back("Access-Control-Max-Age", "600");
  return fields;
}

/// From 1; 0: unknown.
std::uint64_t Access::key_number(std::string_view key) const {
  const PaddedKey given = padded(key);
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < options_.keys.size(); ++i)
    if (equal_in_fixed_time(given, padded(options_.keys[i]))) found = i + 1;
  return found;
}

std::optional<std::uint64_t> Access::scope_of(std::string_view authorization,
                                              std::string_view api_key) const {
  if (options_.keys.empty()) return 0;
  constexpr std::string_view kScheme = "bearer ";
  std::uint64_t found = 0;
  if (lower_case(authorization.substr(0, kScheme.size())) == kScheme) {
    authorization.remove_prefix(kScheme.size());
    while (authorization.starts_with(' ')) authorization.remove_prefix(1);
    found = key_number(authorization);
  }
  if (found == 0) found = key_number(api_key);
  if (found == 0) return {};
  return options_.share_scopes ? 0 : found;
}

}  // namespace cria::serve
