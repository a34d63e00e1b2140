#include "tools/serve/http/target.h"

#include <algorithm>
#include <charconv>

namespace cria::serve {
namespace {

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2 || value == 0)
      return {};
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

}  // namespace

std::optional<Target> parse_target(std::string_view text) {
  Target target;
  if (text == "*") return Target{"*", "", ""};
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!text.starts_with(scheme)) continue;
    text.remove_prefix(scheme.size());
    const std::size_t end = std::min(text.find_first_of("/?"), text.size());
    target.host = text.substr(0, end);
    if (target.host.empty()) return {};
    text.remove_prefix(end);
    if (text.empty() || text.front() == '?') target.path = "/";
    break;
  }
  if (target.path.empty() && !text.starts_with('/')) return {};
  const std::size_t mark = std::min(text.find('?'), text.size());
  if (target.path.empty()) {
    auto path = percent_decoded(text.substr(0, mark));
    if (!path) return {};
    target.path = std::move(*path);
  }
  if (mark < text.size()) target.query = text.substr(mark + 1);
  return target;
}

}  // namespace cria::serve
