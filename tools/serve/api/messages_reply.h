// The answer of /v1/messages: a message, or a stream of its blocks.
#pragma once

#include "tools/serve/api/reply.h"

namespace cria::serve {

class MessagesReply final : public Reply {
 public:
  explicit MessagesReply(ReplyParts parts) : Reply(std::move(parts)), id_(fresh_id("msg_")) {}

 private:
  void begin_stream() override;
  void write_thinking(Choice& choice, std::string_view piece) override;
  void write_text(Choice& choice, const std::string& text,
                  std::span<const TextToken> tokens) override;
  void write_call(Choice& choice, const ToolCallPiece& piece) override;
  void end_stream() override;
  std::string whole() override;

  void send(const char* type, RequestJson data = RequestJson::object());
  void open(const char* type, RequestJson block);
  void close();
  void add(const char* type, const char* member, std::string_view piece);
  [[nodiscard]] RequestJson message() const;
  [[nodiscard]] RequestJson usage_of(const tools::AnswerUsage& used) const;
  [[nodiscard]] std::pair<RequestJson, RequestJson> stop() const;

  const std::string id_;
  std::size_t blocks_ = 0;  // blocks begun
  std::string open_;        // type of the open block, or ""
  bool has_input_ = false;  // the open call has got arguments
};

}  // namespace cria::serve
