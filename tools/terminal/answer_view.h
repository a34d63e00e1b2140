// An answer on stdout while it comes, and what the model thought before it.
#pragma once

#include <string_view>

#include "tools/terminal/word_wrap.h"

namespace cria::tools {

/// Thinking is dimmed; where stdout shows no styles it stands between lines that say so. A terminal
/// gets no control characters.
class AnswerView {
 public:
  /// for_person: lines end between words; else they are the model's.
  explicit AnswerView(bool for_person);

  void think(std::string_view piece);
  void answer(std::string_view piece);
  /// A line of its own.
  void call(std::string_view line);
  /// What was held back, and the end of thinking that no answer followed. The view is as new then.
  void finish();

 private:
  void write(std::string_view text, bool dimmed);
  void end_thinking();

  bool for_person_, thinking_ = false, in_line_ = false;
  WordWrap wrap_;
};

}  // namespace cria::tools
