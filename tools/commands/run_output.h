// Where the answer of `cria run` goes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"
#include "tools/commands/run_options.h"
#include "tools/report/answer_json.h"
#include "tools/terminal/answer_view.h"

namespace cria::tools {

/// Writes an answer to stdout, piece by piece and at its end, as text or JSON. What it is given
/// must outlive it.
class RunOutput {
 public:
  /// notes: of the template, said on stderr before the first piece.
  RunOutput(const RunOptions& options, const AnswerFacts& facts, std::vector<std::string>& notes)
      : options_(options), facts_(facts), notes_(notes) {}

  void show(AnswerPart part, std::string_view piece);
  void show(const ToolCall& call);
  void finish(const GenerateResult& result);

 private:
  void say_notes();

  const RunOptions& options_;
  const AnswerFacts& facts_;
  std::vector<std::string>& notes_;
  AnswerView view_{false};
  std::size_t calls_ = 0;
};

/// Says on stderr what there is to say of an answer once it is out.
void print_answer_notes(const GenerateResult& result, const RunOptions& options);

}  // namespace cria::tools
