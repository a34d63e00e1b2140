// The tokens of a rendered conversation, also of one that grows turn by turn.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/values/text.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// One part per run of one author. They point into the text.
inline std::vector<TextPart> text_parts(const jinja::Text& text) {
  std::vector<TextPart> parts;
  std::size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    parts.push_back({std::string_view(text.bytes()).substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  return parts;
}

/// Token ids of a rendered conversation, BOS first where the vocabulary wants one and the template
/// wrote none. No EOS whatever the vocabulary says: the template ends the turns, and the last one
/// is the model's to end.
std::vector<TokenId> encode_rendered(const Tokenizer& tokenizer, const jinja::Text& rendered);

/// Keeps the ids of the conversation. Tokenizing an answer's text again need not give the ids that
/// the model chose, and every id after a different one would be evaluated again.
class Transcript {
 public:
  /// Ids of a rendered conversation (as encode_rendered). Where it begins with the last one and its
  /// answer, byte for byte and author for author, with the ids that these have already.
  std::vector<TokenId> encode(const Tokenizer& tokenizer, const jinja::Text& rendered);
  /// Adds the model's answer to the conversation that was encoded last, as ids and as text.
  void answered(const Tokenizer& tokenizer, std::span<const TokenId> ids, std::string_view text);

 private:
  [[nodiscard]] bool continued_by(const jinja::Text& rendered) const;

  jinja::Text text_;
  std::vector<TokenId> ids_;
};

}  // namespace cria
