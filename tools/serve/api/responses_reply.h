// The answer of /v1/responses: a response, or the stream of events that builds one.
#pragma once

#include <mutex>

#include "tools/serve/api/reply.h"

namespace cria::serve {

/// Parts of the request that its answer repeats, and the store that keeps the answer.
struct ResponsesForm {
  RequestJson told;          ///< members of the response, as sent or as used
  RequestJson conversation;  ///< messages of the equal request
  bool summary = false;      ///< thoughts come as summary
  /// Names of tools in a namespace, as the model reads them: name and namespace.
  std::map<std::string, std::pair<std::string, std::string>> spaces;
  /// Keeps a finished response with its conversation; false: it is not kept.
  std::function<bool(RequestJson& response, RequestJson conversation)> keep;
};

class ResponsesReply final : public Reply {
 public:
  ResponsesReply(ReplyParts parts, ResponsesForm form)
      : Reply(std::move(parts)), form_(std::move(form)), id_(fresh_id("resp_")) {}

 private:
  void begin_stream() override;
  void write_thinking(Choice& choice, std::string_view piece) override;
  void write_text(Choice& choice, const std::string& text,
                  std::span<const TextToken> tokens) override;
  void write_call(Choice& choice, const ToolCallPiece& piece) override;
  void end_stream() override;
  void fail_stream(const Failure& failure) override;
  std::string whole() override;

  void send(const std::string& type, RequestJson data);
  void open(RequestJson item);
  void close(bool last);
  void delta(std::string_view piece, RequestJson logprobs = nullptr);
  [[nodiscard]] RequestJson place() const;
  [[nodiscard]] const char* events() const;
  [[nodiscard]] RequestJson response(const char* status) const;
  [[nodiscard]] RequestJson finished();
  [[nodiscard]] bool incomplete() const;
  [[nodiscard]] RequestJson part(const std::string& text, RequestJson logprobs) const;
  [[nodiscard]] RequestJson call_item(const std::string& id, const std::string& name) const;
  [[nodiscard]] RequestJson reasoning_item() const;
  [[nodiscard]] RequestJson entries(std::span<const TextToken> tokens) const;

  ResponsesForm form_;
  const std::string id_;
  RequestJson output_ = RequestJson::array();  // items that are done
  RequestJson item_;                           // the open one, or null
  std::string text_;                           // its text so far
  RequestJson logprobs_ = RequestJson::array();
  std::mutex mutex_;  // numbers and order of events: silence is broken by another thread
  std::size_t events_ = 0;
};

}  // namespace cria::serve
