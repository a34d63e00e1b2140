// Numbers of things in messages: the one place that makes plurals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cria {

/// "1 window", "2 windows", "0 windows". many: the plural if it is not the noun with an s, such as
/// "entries".
inline std::string counted(std::uint64_t n, std::string_view one, std::string_view many = {}) {
  std::string text = std::to_string(n) + " ";
  if (n != 1 && !many.empty()) return text.append(many);
  return text.append(one).append(n == 1 ? "" : "s");
}

}  // namespace cria
