// The answers of all protocols: one body or a stream.
#pragma once

#include <mutex>

#include "tools/serve/api/reply.h"

namespace cria::serve {

// ---- /v1/chat/completions and /v1/completions

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
  void send(const Choice& choice, Json json, bool last = false);
  void send_delta(Choice& choice, Json delta);
  [[nodiscard]] Json head(bool chunk) const;
  [[nodiscard]] Json whole_choice(Choice& choice);
  [[nodiscard]] Json logprobs(Choice& choice, std::span<const TextToken> tokens) const;
  [[nodiscard]] std::vector<TextToken> echo_tokens(Choice& choice) const;

  const std::string id_;
};

// ---- /v1/messages: a message, or a stream of its blocks

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

  void send(const char* type, Json data = Json::object());
  void open(const char* type, Json block);
  void close();
  void add(const char* type, const char* member, std::string_view piece);
  [[nodiscard]] Json message() const;
  [[nodiscard]] Json usage_of(const tools::AnswerUsage& used) const;
  [[nodiscard]] std::pair<Json, Json> stop() const;

  const std::string id_;
  std::size_t blocks_ = 0;  // blocks begun
  std::string open_;        // type of the open block, or ""
  bool has_input_ = false;  // the open call has got arguments
};

// ---- /v1/responses: a response, or the stream of events that builds one

/// Parts of the request that its answer repeats, and the store that keeps the answer.
struct ResponsesForm {
  Json told;             ///< members of the response, as sent or as used
  Json conversation;     ///< messages of the equal request
  bool summary = false;  ///< thoughts come as summary
  /// Names of tools in a namespace, as the model reads them: name and namespace.
  std::map<std::string, std::pair<std::string, std::string>> spaces;
  /// Keeps a finished response with its conversation; false: it is not kept.
  std::function<bool(Json& response, Json conversation)> keep;
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

  void send(const std::string& type, Json data);
  void open(Json item);
  void close(bool last);
  void delta(std::string_view piece, Json logprobs = nullptr);
  [[nodiscard]] Json place() const;
  [[nodiscard]] const char* events() const;
  [[nodiscard]] Json response(const char* status) const;
  [[nodiscard]] Json finished();
  [[nodiscard]] bool incomplete() const;
  [[nodiscard]] Json part(const std::string& text, Json logprobs) const;
  [[nodiscard]] Json call_item(const std::string& id, const std::string& name) const;
  [[nodiscard]] Json reasoning_item() const;
  [[nodiscard]] Json entries(std::span<const TextToken> tokens) const;

  ResponsesForm form_;
  const std::string id_;
  Json output_ = Json::array();  // items that are done
  Json item_;                    // the open one, or null
  std::string text_;             // its text so far
  Json logprobs_ = Json::array();
  std::mutex mutex_;  // numbers and order of events: silence is broken by another thread
  std::size_t events_ = 0;
};

// ---- /api/chat and /api/generate: one object, or lines of them

class OllamaReply final : public Reply {
 public:
  /// generate: the text is "response", not in a message.
  OllamaReply(ReplyParts parts, bool generate) : Reply(std::move(parts)), generate_(generate) {}

  /// Returns a line with this text, or the only one.
  static Json line(const std::string& model, bool generate, std::string_view text);

 private:
  void begin_stream() override;
  void write_thinking(Choice& choice, std::string_view piece) override;
  void write_text(Choice& choice, const std::string& text,
                  std::span<const TextToken> tokens) override;
  void write_call(Choice& /*choice*/, const ToolCallPiece& /*piece*/) override {}
  void end_call(Choice& choice, const ToolCall& call) override;
  void end_stream() override;
  std::string whole() override;

  Json& holder(Json& line) const { return generate_ ? line : line["message"]; }
  void send(const Json& line);
  void add_logprobs(Json& line, std::span<const TextToken> tokens) const;
  void add_end(Json& line) const;

  const bool generate_;
  std::size_t calls_ = 0;
};

// ---- /infill: one object or a stream of pieces, and the limits that its lines have

/// Ends a text before a line that is indented too little, and at a line break when time is over.
class LineLimit {
 public:
  /// indent: min spaces and tabs before a line; the first and blank lines may have less. 0: any.
  explicit LineLimit(std::size_t indent) : indent_(indent) {}

  /// Returns the text that certainly belongs to the answer. late: end at the next line break.
  std::string push(std::string_view piece, bool late);
  /// Returns the text held back, at the end.
  std::string finish() { return std::exchange(held_, {}); }
  /// True if the text has ended; nothing follows.
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  void push_indentation(char c, std::string& out);

  const std::size_t indent_;
  std::string held_;        // line breaks, and the beginning of a line
  std::size_t column_ = 0;  // of that line
  bool ended_ = false;
};

struct InfillForm {
  std::vector<std::string> fields;  ///< members of the answer, such as "timings/prompt_n"; {}: all
  std::size_t indent = 0;           ///< min indentation of lines
  std::chrono::milliseconds time{0};  ///< from the first token; 0 or less: no limit
  std::int64_t id_slot = -1;          ///< as sent
};

class InfillReply final : public Reply {
 public:
  InfillReply(ReplyParts parts, InfillForm form);

 private:
  void write_thinking(Choice& /*choice*/, std::string_view /*piece*/) override {}
  void write_text(Choice& choice, const std::string& text,
                  std::span<const TextToken> tokens) override;
  void write_call(Choice& /*choice*/, const ToolCallPiece& /*piece*/) override {}
  bool take_piece(Choice& choice, std::string& piece) override;
  void end_choice(Choice& choice) override;
  void end_stream() override;
  std::string whole() override;

  [[nodiscard]] Json result(const std::string& content) const;

  const InfillForm form_;
  LineLimit limit_;
  std::string text_;  // without a stream
};

}  // namespace cria::serve
