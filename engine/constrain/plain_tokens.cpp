#include "engine/constrain/plain_tokens.h"

namespace cria {

PlainTokens::PlainTokens(PlainKind kind, std::span<const TextTrie::Text> texts,
                         std::size_t vocabulary_size) {
  std::array<std::vector<TextTrie::Text>, kMaxChars + 1> other;
  for (TokenBits& bits : whole) bits.resize((vocabulary_size + 63) / 64);
  for (const auto& [text, id] : texts) {
    std::string_view rest = text;
    std::size_t chars = 0;
    for (; chars < kMaxChars; ++chars) {
      const std::size_t bytes = plain_char(kind, rest);
      if (bytes == 0) break;
      rest.remove_prefix(bytes);
    }
    if (rest.empty())
      allow_token(whole[chars], id);
    else
      other[chars].emplace_back(rest, id);
  }
  for (std::size_t n = 0; n <= kMaxChars; ++n) {
    for (std::size_t word = 0; n > 0 && word < whole[n].size(); ++word)
      whole[n][word] |= whole[n - 1][word];
    rests[n] = TextTrie(std::move(other[n]));
  }
}

}  // namespace cria
