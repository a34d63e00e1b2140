// A model that says what a test wants, by greedy choice.
#pragma once

#include "tests/engine/session/bigram_model.h"

namespace cria::test {

/// After <|im_start|> comes the first of the script's pieces, after each the next, after the last
/// <|im_end|>. Control tokens of the script are those in the form <|…|>, tokens of the user those
/// in <…>. All pieces are different; at most 50.
inline TinyModel scripted_file(const std::string& chat_template,
                               const std::vector<std::string>& script) {
  constexpr std::size_t kStart = 3, kEnd = 4;
  TinyModel tiny = bigram_file([n = script.size()](std::size_t last, std::size_t next) {
    const std::size_t at = last == kStart ? 0 : last - kEnd;  // in the script, of what comes next
    const bool begun = last == kStart || (last > kEnd && last <= kEnd + n);
    return begun && next == (at == n ? kEnd : kEnd + 1 + at) ? 20.0 : 0.0;
  });
  tiny.pieces = {{"<|im_start|>", TokenType::Control}, {"<|im_end|>", TokenType::Control}};
  for (const std::string& piece : script)
    tiny.pieces.emplace_back(piece, piece.starts_with("<|")  ? TokenType::Control
                                    : piece.starts_with('<') ? TokenType::UserDefined
                                                             : TokenType::Normal);
  tiny.keys.emplace_back("tokenizer.chat_template", chat_template);
  return tiny;
}

/// Thinking left out of the history, a switch for it.
inline const std::string kThinkingTemplate =
    "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ ' ' ~ m.content ~ '<|im_end|>' }}{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|im_start|>"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif "
    "%}";
inline const std::vector<std::string> kThinkingScript = {"<think>",  "hm",   "so",
                                                         "</think>", "Four", "ty"};

}  // namespace cria::test
