#include "tools/options/types.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "engine/quantize/plan.h"
#include "kernels/formats/dtype.h"
#include "tools/options/nearest.h"

namespace cria::tools {
namespace {

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string unknown_text(const std::string& what, const std::string& name,
                         const std::vector<std::string>& names) {
  return "there is no " + what + " " + name + suggestion(upper(name), names) +
         " (there are: " + CLI::detail::join(names, ", ") + ")";
}

}  // namespace

std::vector<std::string> weight_type_names() {
  std::vector<std::string> names;
  constexpr std::uint32_t kIds = 256;  // more than the format has
  for (std::uint32_t id = 0; id < kIds; ++id)
    if (const DTypeInfo* type = find_dtype(id); type != nullptr && type->dot != DotClass::None)
      names.emplace_back(type->name);
  return names;
}

std::vector<std::string> mix_names() {
  std::vector<std::string> names;
  for (const Mix& mix : mixes()) names.emplace_back(mix.name);
  return names;
}

std::string unknown_type_text(const std::string& name) {
  return unknown_text("tensor type", name, weight_type_names());
}

std::string unknown_mix_text(const std::string& name) {
  return unknown_text("quantization", name, mix_names());
}

std::uint64_t parse_size(const std::string& option, const std::string& text) {
  const CLI::ValidationError wrong(option, "expected a size (2G, 500MB, 300MiB), got " + text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit = CLI::detail::to_lower(std::string(end, text.data() + text.size()));
  if (error != std::errc() || number == 0) throw wrong;
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size()
                                                                 : unit.find_first_not_of(' '));
  constexpr std::string_view kUnits = "kmgt";
  if (unit.empty() || unit == "b") return number;
  const std::size_t power = kUnits.find(unit[0]);
  const std::string rest = unit.substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib"))
    throw wrong;
  const std::uint64_t base = rest == "ib" ? 1024 : 1000;
  for (std::size_t i = 0; i <= power; ++i) {
    if (number > std::numeric_limits<std::uint64_t>::max() / base) throw wrong;
    number *= base;
  }
  return number;
}

}  // namespace cria::tools
