// Access control: host names (against DNS rebinding), origins of web pages, API keys.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/http/exchange.h"
#include "tools/serve/http/message_parser.h"

namespace cria::serve {

struct AccessOptions {
  std::vector<std::string> keys;          ///< none: no key is needed. Each is_api_key().
  std::vector<std::string> cors_origins;  ///< each is_origin_pattern()
  std::vector<std::string> allowed_hosts;
  std::string public_url;     ///< an is_origin() under which the server is known, "" for none
  bool loopback = true;       ///< bound to such an address: names of hosts are looked at
  std::string address;        ///< bound to, as it stands in a Host
  bool share_scopes = false;  ///< --cache-scope all
};

/// "https://app.example" or "http://localhost:5173": scheme, host, perhaps a port, nothing more.
bool is_origin(std::string_view text);
/// An origin of any scheme, "null", "SCHEME://*" of schemes other than http and https, or "*".
bool is_origin_pattern(std::string_view text);
/// 1 to kLongestKey characters that can stand in a header.
bool is_api_key(std::string_view text);
inline constexpr std::size_t kLongestKey = 512;

class Access {
 public:
  explicit Access(AccessOptions options);

  /// 403 unless `host`, the value of the field, is a name of this server. HTTP/1.0 has none: let
  /// through.
  [[nodiscard]] Refusal check_host(std::optional<std::string_view> host) const;
  /// 403 for the Origin of a page without access. "": no Origin header.
  [[nodiscard]] Refusal check_origin(std::string_view origin, std::string_view host) const;
  /// The fields that let a page of that origin read the answer; none for the server's own.
  [[nodiscard]] Headers cors_fields(std::string_view origin) const;
  /// The headers of the answer to a preflight; `asked`: Access-Control-Request-Headers.
  [[nodiscard]] Headers preflight_fields(std::string_view origin, std::string_view asked) const;

  /// The scope of the key in Authorization or x-api-key, from 1; 0 if no key is needed; nullopt if
  /// it is missing or wrong in both. Takes constant time.
  [[nodiscard]] std::optional<std::uint64_t> scope_of(std::string_view authorization,
                                                      std::string_view api_key = {}) const;

 private:
  [[nodiscard]] std::uint64_t key_number(std::string_view key) const;

  AccessOptions options_;
  std::vector<std::string> hosts_;  // lower case, without ports
};

}  // namespace cria::serve
