// The answer of /api/chat or /api/generate: one object, or lines of them.
#pragma once

#include "tools/serve/api/reply.h"

namespace cria::serve {

class OllamaReply final : public Reply {
 public:
  /// generate: the text is "response", not in a message.
  OllamaReply(ReplyParts parts, bool generate) : Reply(std::move(parts)), generate_(generate) {}

  /// Returns a line with this text, or the only one.
  static RequestJson line(const std::string& model, bool generate, std::string_view text);

 private:
  void begin_stream() override;
  void write_thinking(Choice& choice, std::string_view piece) override;
  void write_text(Choice& choice, const std::string& text,
                  std::span<const TextToken> tokens) override;
  void write_call(Choice& /*choice*/, const ToolCallPiece& /*piece*/) override {}
  void end_call(Choice& choice, const ToolCall& call) override;
  void end_stream() override;
  std::string whole() override;

  RequestJson& holder(RequestJson& line) const { return generate_ ? line : line["message"]; }
  void send(const RequestJson& line);
  void add_end(RequestJson& line) const;

  const bool generate_;
  std::size_t calls_ = 0;
};

}  // namespace cria::serve
