// How the answers of a model are built: plain text, or text after a block of thinking, or messages
// in channels. Known from the model's chat template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/chat/tool_call.h"

namespace cria {

enum class AnswerPart : std::uint8_t {
  Thinking,
  Answer,
  Call,  ///< a call of a tool: its arguments
};
/// How a model's answers are written: where its thinking is, and its calls of tools.
struct AnswerFormat {
  enum class Kind : std::uint8_t {
    Plain,  ///< all is the answer
    Block,  ///< perhaps thinking between `open` and `close`, then the answer
    /// Messages <|channel|>NAME<|message|>TEXT<|end|>, those of "analysis" are thinking (gpt-oss);
    /// or
    /// <|think|>TEXT<|end|>, <|content|>TEXT<|end|> (Solar).
    Channels,
  };

  Kind kind = Kind::Plain;                ///< where the thinking is
  std::string open, close;                ///< of a Block
  std::string answer_open, answer_close;  ///< what some models put around the answer, or ""
  CallForm calls = CallForm::None;        ///< how tools are called, where that is known
  std::string tools;                      ///< those that the model is offered: a JSON array, or ""

  /// By the markers that a chat template's source names.
  static AnswerFormat of_template(std::string_view source);
  /// Whether a prompt ends inside of a block that it has opened, so that the model begins with
  /// thinking.
  [[nodiscard]] bool opened_by(std::string_view prompt) const;
  [[nodiscard]] bool thinks() const {
    return kind != Kind::Plain;
  }  ///< whether there is a part for thinking
};

}  // namespace cria
