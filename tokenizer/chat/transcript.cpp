#include "tokenizer/chat/transcript.h"

#include <algorithm>

#include "model/vocabulary.h"

namespace cria {

std::vector<TokenId> encode_rendered(const Tokenizer& tokenizer, const jinja::Text& rendered) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<TokenId> ids = tokenizer.encode_parts(text_parts(rendered));
  if (vocabulary.add_bos && (ids.empty() || ids.front() != *vocabulary.bos))
    ids.insert(ids.begin(), *vocabulary.bos);
  return ids;
}

bool Transcript::continued_by(const jinja::Text& rendered) const {
  if (ids_.empty() || !rendered.bytes().starts_with(text_.bytes())) return false;
  return std::ranges::equal(rendered.part(0, text_.size()).runs(), text_.runs());
}

std::vector<TokenId> Transcript::encode(const Tokenizer& tokenizer, const jinja::Text& rendered) {
  std::vector<TokenId> ids;
  if (continued_by(rendered)) {
    const jinja::Text rest = rendered.part(text_.size(), rendered.size());
    const std::vector<TokenId> more = tokenizer.encode_parts(text_parts(rest));
    // A tokenizer with a dummy space would insert one in the middle of the text, unless the rest
    // begins with a control token, as in most templates.
    const bool seamless = more.empty() || !tokenizer.dummy_space_after(std::nullopt) ||
                          tokenizer.piece(more.front(), false).empty();
    if (seamless) {
      ids = ids_;
      ids.insert(ids.end(), more.begin(), more.end());
    }
  }
  if (ids.empty()) ids = encode_rendered(tokenizer, rendered);
  text_ = rendered;
  ids_ = ids;
  return ids;
}

void Transcript::answered(const Tokenizer& tokenizer, std::span<const TokenId> ids,
                          std::string_view text) {
  StreamDecoder decoder(tokenizer, true);
  std::string said;
  for (const TokenId id : ids) said += decoder.push(id);
  said += decoder.finish();
  if (said != text)
    return;  // for example cut by a stop string: the history will not contain these tokens
  text_.append(text, false);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
}

}  // namespace cria
