#include "engine/constrain/token_trie.h"

#include <algorithm>

#include "engine/constrain/plain_tokens.h"
#include "model/vocabulary.h"

namespace cria {

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
  std::vector<std::size_t> path{0};  // of nodes, from the root to the last text's end
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

// By byte of a text, and at its end: whether it is plain from there on.
void find_plain_ends(std::string_view text, std::vector<bool>& plain) {
  plain.assign(text.size() + 1, false);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = plain_char(PlainKind::Json, text.substr(at));
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
