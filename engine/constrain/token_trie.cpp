#include "engine/constrain/token_trie.h"

#include <algorithm>

#include "model/vocabulary.h"

namespace cria {

TokenTrie::TokenTrie(const Tokenizer& tokenizer, std::size_t most)
    : ends(tokenizer.vocabulary().end_of_generation),
      vocabulary_size(std::min(most, tokenizer.vocabulary().tokens.size())) {
  std::erase_if(ends, [this](TokenId id) { return static_cast<std::size_t>(id) >= vocabulary_size; });
  constexpr std::size_t kLongest = 0xFFFF;
  std::vector<std::pair<std::string, TokenId>> texts;
  for (std::size_t i = 0; i < vocabulary_size; ++i) {
    const auto id = static_cast<TokenId>(i);
    if (std::ranges::count(ends, id) != 0 || tokenizer.vocabulary().unk == id) continue;
    std::string text = tokenizer.piece(id);
    if (text.empty())
      controls.emplace_back(id, tokenizer.piece(id, true));
    else if (text.size() <= kLongest)
      texts.emplace_back(std::move(text), id);
  }
  std::ranges::sort(texts);
  std::vector<std::size_t> path{0};  // of nodes, from the root to the last text's end
  nodes.push_back({0, 0, 0, 0});
  std::string_view last;
  const auto leave = [&](std::size_t depth) {
    for (; path.size() > depth + 1; path.pop_back())
      nodes[path.back()].end = static_cast<std::uint32_t>(nodes.size());
  };
  for (const auto& [text, id] : texts) {
    const auto common = static_cast<std::size_t>(std::ranges::mismatch(text, last).in1 - text.begin());
    leave(common);
    for (std::size_t depth = common; depth < text.size(); ++depth) {
      path.push_back(nodes.size());
      nodes.push_back({0, static_cast<std::uint32_t>(tokens.size()), static_cast<std::uint16_t>(depth + 1),
                       static_cast<std::uint8_t>(text[depth])});
    }
    tokens.push_back(id);
    last = text;
  }
  leave(0);
  nodes.front().end = static_cast<std::uint32_t>(nodes.size());
  nodes.push_back({0, static_cast<std::uint32_t>(tokens.size()), 0, 0});
}

}  // namespace cria
