// The log-probabilities of an answer's tokens, and OpenAI's two forms of them.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"
#include "tools/options/fields.h"

namespace cria::serve {

/// A token as the text has it.
struct TextToken {
  std::string text;  ///< its bytes
  /// Nothing: the model was not asked, as for the first token of a prompt.
  std::optional<TokenLogprobs> logprobs;
};

/// Tokens of an answer on their way: they are given out with their text. What a stop text cut off
/// is not.
class AnswerTokens {
 public:
  explicit AnswerTokens(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void add(TokenLogprobs token);
  /// What was thought to be the answer is thinking.
  void clear();
  /// Those that begin in the answer's first bytes, but for those that were taken before. text: what
  /// the answer begins with, looked at once: where white space in front of it was dropped, as
  /// behind thinking, it is none of the tokens either.
  std::vector<TextToken> take(std::size_t bytes, std::string_view text);

 private:
  void drop_space();

  const Tokenizer& tokenizer_;
  std::deque<TextToken> tokens_;
  std::size_t begin_ = 0;   // of the first of them, in the answer
  bool begun_ = false;      // some of its text was seen
  bool restarted_ = false;  // a text begins with the next token
};

/// {"content": […], "refusal": null}
tools::RequestJson chat_logprobs(const Tokenizer& tokenizer, std::span<const TextToken> tokens);

/// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}: the offsets count characters from
/// `offset` on, which moves behind the tokens.
tools::RequestJson completion_logprobs(const Tokenizer& tokenizer,
                                       std::span<const TextToken> tokens, std::size_t& offset);

}  // namespace cria::serve
