#include "engine/constrain/token_trie.h"

#include <algorithm>
#include <bitset>
#include <optional>

#include "model/vocabulary.h"

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

// UTF-8 beyond U+007F: a first byte, a second one, and further ones from 80 to BF.
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
  // further: number of remaining bytes, the first of which is in `second`.
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
  if (kind != PlainKind::JsonString) return 0;
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
  const bool beyond = kind_ == PlainKind::JsonString;
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

TokenTrie::Texts TokenTrie::texts_of(const Tokenizer& tokenizer, std::size_t most) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  const std::size_t size = std::min(most, vocabulary.tokens.size());
  Texts out{std::vector<std::string>(size), vocabulary.end_of_generation, {}};
  std::erase_if(out.ends, [size](TokenId id) { return static_cast<std::size_t>(id) >= size; });
  for (std::size_t i = 0; i < size; ++i) {
    const auto id = static_cast<TokenId>(i);
    if (std::ranges::count(out.ends, id) != 0 || vocabulary.unk == id) continue;
    out.texts[i] = tokenizer.piece(id);
    if (out.texts[i].empty()) out.controls.emplace_back(id, tokenizer.piece(id, true));
  }
  return out;
}

TextTrie::TextTrie(std::vector<Text> texts) {
  std::ranges::sort(texts);
  std::vector<std::size_t> path{0};  // nodes from the root to the last text's end
  nodes.push_back({0, 0, 0, 0});
  std::string_view last;
  const auto leave = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back())
      nodes[path.back()].end = static_cast<std::uint32_t>(nodes.size());
  };
  for (const auto& [text, id] : texts) {
    const auto common =
        static_cast<std::size_t>(std::ranges::mismatch(text, last).in1 - text.begin());
    leave(common);
    for (std::size_t depth = common; depth < text.size(); ++depth) {
      path.push_back(nodes.size());
      nodes.push_back({0, static_cast<std::uint32_t>(tokens.size()),
                       static_cast<std::uint16_t>(depth + 1),
                       static_cast<std::uint8_t>(text[depth])});
    }
    deepest = std::max(deepest, static_cast<std::uint16_t>(text.size()));
    tokens.push_back(id);
    last = text;
  }
  leave(0);
  nodes.front().end = static_cast<std::uint32_t>(nodes.size());
  nodes.push_back({0, static_cast<std::uint32_t>(tokens.size()), 0, 0});
}

TokenTrie::TokenTrie(Texts vocabulary)
    : ends(std::move(vocabulary.ends)),
      controls(std::move(vocabulary.controls)),
      vocabulary_size(vocabulary.texts.size()),
      texts_(std::move(vocabulary.texts)) {
  for (std::string& text : texts_)
    if (text.size() > kLongest) text.clear();
  static_cast<TextTrie&>(*this) = TextTrie(texts());
  find_plain();
}

TokenTrie::TokenTrie(const Tokenizer& tokenizer, std::size_t most)
    : TokenTrie(texts_of(tokenizer, most)) {}
TokenTrie::~TokenTrie() = default;

std::vector<TextTrie::Text> TokenTrie::texts() const {
  std::vector<Text> out;
  for (std::size_t i = 0; i < texts_.size(); ++i)
    if (!texts_[i].empty()) out.emplace_back(texts_[i], static_cast<TokenId>(i));
  return out;
}

namespace {

// Sets plain[i] to true if the text is plain from byte i to its end.
void find_plain_ends(std::string_view text, std::vector<bool>& plain) {
  plain.assign(text.size() + 1, false);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = plain_char(PlainKind::JsonString, text.substr(at));
    if (bytes == 0) plain.assign(text.size() + 1, false);
    plain[at] = bytes != 0;
    at += std::max<std::size_t>(bytes, 1);
  }
  plain[text.size()] = true;
}

}  // namespace

void TokenTrie::find_plain() {
  plain_below.assign(nodes.size(), true);
  std::vector<std::uint32_t> path(deepest + 1U);
  std::vector<bool> plain;
  for (std::uint32_t n = 0; n + 1 < nodes.size(); ++n) {
    path[nodes[n].depth] = n;
    for (std::uint32_t t = nodes[n].first_token; t < nodes[n + 1].first_token; ++t) {
      find_plain_ends(text(tokens[t]), plain);
      for (std::size_t depth = 0; depth < plain.size(); ++depth)
        if (!plain[depth]) plain_below[path[depth]] = false;
    }
  }
}

const PlainTokens& TokenTrie::plain_tokens(PlainKind kind) const {
  Plain& plain = plain_[static_cast<std::size_t>(kind)];
  std::call_once(plain.made, [&] {
    plain.tokens = std::make_unique<const PlainTokens>(kind, texts(), vocabulary_size);
  });
  return *plain.tokens;
}

}  // namespace cria
