#include "engine/constrain/plain_chars.h"

#include <algorithm>
#include <bitset>
#include <optional>

namespace cria {
namespace {

struct ByteRange {
  std::uint8_t low, high;
};

constexpr ByteRange kJsonRanges[] = {{' ', '!'}, {'#', '['}, {']', '~'}};
constexpr ByteRange kWordRanges[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
constexpr ByteRange kLetterRanges[] = {{'A', 'Z'}, {'a', 'z'}};
constexpr ByteRange kSmallRanges[] = {{'a', 'z'}};

std::span<const ByteRange> ascii_ranges(PlainKind kind) {
  switch (kind) {
    case PlainKind::Word:
      return kWordRanges;
    case PlainKind::Letters:
      return kLetterRanges;
    case PlainKind::Small:
      return kSmallRanges;
    default:
      return kJsonRanges;
  }
}

// How UTF-8 writes what is beyond U+007F: a first byte, a second one, and further ones of 80 to BF.
struct Utf8Form {
  ByteRange first, second;
  std::size_t further;
};
constexpr Utf8Form kUtf8Forms[] = {
    {{0xC2, 0xDF}, {0x80, 0xBF}, 0}, {{0xE0, 0xE0}, {0xA0, 0xBF}, 1},
    {{0xE1, 0xEC}, {0x80, 0xBF}, 1}, {{0xED, 0xED}, {0x80, 0x9F}, 1},
    {{0xEE, 0xEF}, {0x80, 0xBF}, 1}, {{0xF0, 0xF0}, {0x90, 0xBF}, 2},
    {{0xF1, 0xF3}, {0x80, 0xBF}, 2}, {{0xF4, 0xF4}, {0x80, 0x8F}, 2}};

bool contains(ByteRange range, unsigned char byte) {
  return range.low <= byte && byte <= range.high;
}

// The one node to which sequences of ranges of bytes lead, each on one edge; no node between does
// anything else first.
class OneTarget {
 public:
  explicit OneTarget(const Automaton& automaton) : automaton_(automaton) {}

  bool all_lead_there(NodeId from, std::span<const ByteRange> ranges) {
    for (const ByteRange& range : ranges)
      if (!leads(from, range, {}, 0)) return false;
    return true;
  }
  bool all_lead_there(NodeId from, const Utf8Form& form) {
    return leads(from, form.first, form.second, 1 + form.further);
  }

 private:
  // further: so many bytes more, the first of them of `second`.
  bool leads(NodeId from, ByteRange range, ByteRange second, std::size_t further) {
    std::bitset<256> read;
    for (const Automaton::Edge& edge : automaton_.edges_of(from)) {
      const unsigned low = std::max<unsigned>(edge.low, range.low),
                     high = std::min<unsigned>(edge.high, range.high);
      for (unsigned byte = low; byte <= high; ++byte) {
        if (read[byte]) return false;
        read.set(byte);
      }
      if (low <= high && !leads_on(edge.to, second, further)) return false;
    }
    return read.count() == range.high - range.low + 1U;
  }
  bool leads_on(NodeId node, ByteRange second, std::size_t further) {
    if (further == 0) return node == target_.value_or(node) && (target_ = node, true);
    if (automaton_.nodes[node].ends || !automaton_.silents_of(node).empty() ||
        !automaton_.calls_of(node).empty())
      return false;
    return leads(node, second, {0x80, 0xBF}, further - 1);
  }

  const Automaton& automaton_;
  std::optional<NodeId> target_;
};

}  // namespace

std::size_t plain_char(PlainKind kind, std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80)
    return std::ranges::any_of(ascii_ranges(kind),
                               [=](ByteRange range) { return contains(range, first); });
  if (kind != PlainKind::Json) return 0;
  for (const Utf8Form& form : kUtf8Forms) {
    if (!contains(form.first, first)) continue;
    const std::size_t bytes = 2 + form.further;
    if (text.size() < bytes || !contains(form.second, static_cast<unsigned char>(text[1])))
      return 0;
    for (const char c : text.substr(2, form.further))
      if (!contains({0x80, 0xBF}, static_cast<unsigned char>(c))) return 0;
    return bytes;
  }
  return 0;
}

PlainEdges::Reads PlainEdges::find(NodeId node) const {
  const std::span<const ByteRange> ascii = ascii_ranges(kind_);
  const bool beyond = kind_ == PlainKind::Json;
  const auto reads_one = [&](const Automaton::Edge& edge) {
    if (beyond && edge.high >= 0xC2 && edge.low <= 0xF4) return true;
    return std::ranges::any_of(
        ascii, [&](ByteRange range) { return edge.low <= range.high && range.low <= edge.high; });
  };
  if (std::ranges::none_of(automaton_.edges_of(node), reads_one)) return Reads::None;
  OneTarget target(automaton_);
  if (!target.all_lead_there(node, ascii)) return Reads::Mixed;
  if (beyond)
    for (const Utf8Form& form : kUtf8Forms)
      if (!target.all_lead_there(node, form)) return Reads::Mixed;
  return Reads::All;
}

}  // namespace cria
