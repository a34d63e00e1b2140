// The answer of /v1/chat/completions or /v1/completions: one body or a stream of chunks.
#pragma once

#include "tools/serve/api/reply.h"

namespace cria::serve {

class OpenAiReply final : public Reply {
 public:
  explicit OpenAiReply(ReplyParts parts);

 private:
  void write_thinking(Choice& choice, std::string_view piece) override;
  void write_text(Choice& choice, const std::string& text,
                  std::span<const TextToken> tokens) override;
  void write_call(Choice& choice, const ToolCallPiece& piece) override;
  void write_progress(Choice& choice, std::size_t processed) override;
  void end_choice(Choice& choice) override;
  void end_stream() override;
  std::string whole() override;

  void begin_choice(Choice& choice, bool call = false);
  void send(const Choice& choice, RequestJson json, bool last = false);
  void send_delta(Choice& choice, RequestJson delta);
  [[nodiscard]] RequestJson head(bool chunk) const;
  [[nodiscard]] RequestJson whole_choice(Choice& choice);
  [[nodiscard]] RequestJson logprobs(Choice& choice, std::span<const TextToken> tokens) const;
  [[nodiscard]] std::vector<TextToken> echo_tokens(Choice& choice) const;

  const std::string id_;
};

}  // namespace cria::serve
