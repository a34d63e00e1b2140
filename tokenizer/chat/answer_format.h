// The structure of a model's answers, known from its chat template: plain text, text after a block
// of thinking, or messages in channels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/chat/tool_call.h"

namespace cria {

enum class AnswerPart : std::uint8_t {
  Thinking,
  Answer,
  Call,  ///< arguments of a tool call
};
/// The format of thinking and tool calls in answers.
struct AnswerFormat {
  enum class Kind : std::uint8_t {
    Plain,  ///< all is the answer
    Block,  ///< optional thinking between `open` and `close`, then the answer
    /// Messages <|channel|>NAME<|message|>TEXT<|end|>, with thinking in "analysis" (gpt-oss), or
    /// <|think|>TEXT<|end|> and <|content|>TEXT<|end|> (Solar).
    Channels,
  };

  Kind kind = Kind::Plain;                ///< place of the thinking
  std::string open, close;                ///< markers of a Block
  std::string answer_open, answer_close;  ///< markers around the answer, or ""
  CallForm calls = CallForm::None;        ///< format of tool calls, if known
  std::string tools;                      ///< offered tools: a JSON array, or ""

  /// Returns the format by the markers in the source of a chat template.
  static AnswerFormat of_template(std::string_view source);
  /// True if a prompt ends with an open block: the model begins with thinking.
  [[nodiscard]] bool opened_by(std::string_view prompt) const;
  /// True if answers have a part for thinking.
  [[nodiscard]] bool thinks() const { return kind != Kind::Plain; }
};

}  // namespace cria
