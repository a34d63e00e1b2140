// The answer of /infill: one object or a stream of pieces, and the limits that its lines have.
#pragma once

#include "tools/serve/api/reply.h"

namespace cria::serve {

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

  [[nodiscard]] RequestJson result(const std::string& content) const;

  const InfillForm form_;
  LineLimit limit_;
  std::string text_;  // without a stream
};

}  // namespace cria::serve
