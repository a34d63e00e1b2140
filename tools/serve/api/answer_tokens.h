// The log-probabilities of an answer's tokens, and OpenAI's two forms of them.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"
#include "model/file/json.h"
#include "tools/serve/api/json_text.h"

namespace cria::serve {

/// A token as it occurs in the text.
struct TextToken {
  std::string text;  ///< its bytes
  /// nullopt: the model was not evaluated for it, as for the first token of a prompt
  std::optional<TokenLogprobs> logprobs;
};

/// The tokens of an answer, handed out with the text they belong to. Tokens of a stop string stay.
class AnswerTokens {
 public:
  explicit AnswerTokens(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void add(TokenLogprobs token);
  /// Drops the tokens: they turned out to be thinking.
  void clear();
  /// Returns the tokens that begin in the answer's first `bytes`, except those returned before. The
  /// first non-empty text shows if white space before the answer was dropped, as after thinking;
  /// then it is dropped from the tokens too.
  std::vector<TextToken> take(std::size_t bytes, std::string_view text);

 private:
  void drop_space();

  const Tokenizer& tokenizer_;
  std::deque<TextToken> tokens_;
  std::size_t begin_ = 0;   // where the first token begins in the answer
  bool begun_ = false;      // take() has seen text
  bool restarted_ = false;  // a text begins with the next token
};

/// {"content": […], "refusal": null}
Json chat_logprobs(const Tokenizer& tokenizer, std::span<const TextToken> tokens);

/// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}: the offsets count characters from
/// `offset` on, which moves behind the tokens.
Json completion_logprobs(const Tokenizer& tokenizer, std::span<const TextToken> tokens,
                         std::size_t& offset);

}  // namespace cria::serve
