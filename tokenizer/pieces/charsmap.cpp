#include "tokenizer/pieces/charsmap.h"

#include <string>

#include "model/error.h"
#include "model/plural.h"

namespace cria {
namespace {

// A unit of the double array, as Darts (a library of double-array tries) stores it.
std::size_t offset_of(std::uint32_t unit) {
  return std::size_t{unit >> 10U} << ((unit & 0x200U) >> 6U);
}
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FFU; }
bool has_value(std::uint32_t unit) { return (unit & 0x100U) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFFU; }

std::uint32_t unit_at(std::string_view bytes) {
  std::uint32_t unit = 0;
  for (std::size_t i = 4; i-- > 0;) unit = unit << 8U | static_cast<unsigned char>(bytes[i]);
  return unit;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t trie = bytes.size() < 4 ? 0 : unit_at(bytes);
  if (trie == 0 || trie % 4 != 0 || trie > bytes.size() - 4)
    throw Error("",
                "bad charsmap: expected the size of a trie and its units, got " +
                    counted(bytes.size(), "byte"),
                "key tokenizer.ggml.precompiled_charsmap");
  for (std::size_t at = 4; at < 4 + trie; at += 4) units_.push_back(unit_at(bytes.substr(at)));
  replacements_ = bytes.substr(4 + trie);
}

Charsmap::Match Charsmap::longest(std::string_view text) const {
  Match match;
  if (units_.empty()) return match;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    node ^= label;
    if (node >= units_.size() || label_of(units_[node]) != label) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (node >= units_.size()) break;
    const std::size_t begin = value_of(units_[node]);
    const std::size_t end = replacements_.find('\0', begin);
    if (begin < replacements_.size() && end != std::string_view::npos)
      match = {i + 1, replacements_.substr(begin, end - begin)};
  }
  return match;
}

}  // namespace cria
