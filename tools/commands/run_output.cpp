#include "tools/commands/run_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "model/plural.h"
#include "tools/report/generation.h"
#include "tools/report/json.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

/// Whether what goes to stderr now would be seen behind an answer that did not end its line.
bool notes_follow_answer() {
  if (is_terminal(stdout)) return false;  // its line was ended
  struct stat out = {}, err = {};
  const bool same = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
                    out.st_dev == err.st_dev && out.st_ino == err.st_ino;
  return same || is_terminal(stderr);
}

}  // namespace

void RunOutput::show(AnswerPart part, std::string_view piece) {
  say_notes();
  if (options_.stream_json)
    write_stdout(json_line(piece_json(part, piece, facts_)));
  else if (!options_.json && part == AnswerPart::Answer)
    view_.answer(piece);
  else if (!options_.json && options_.show_thinking)
    view_.think(piece);
  flush_stdout();
}

void RunOutput::show(const ToolCall& call) {
  say_notes();
  if (options_.stream_json)
    write_stdout(json_line(call_piece_json(call, calls_++, facts_)));
  else if (!options_.json)
    view_.call(call_line(call));
  flush_stdout();
}

void RunOutput::finish(const GenerateResult& result) {
  say_notes();
  view_.finish();
  if (options_.json)
    write_stdout(json_text(answer_json(result, facts_)));
  else if (options_.stream_json)
    write_stdout(json_line(answer_json(result, facts_)));
  else if (is_terminal(stdout) && !result.text.ends_with('\n') && result.tool_calls.empty())
    write_stdout("\n");
  flush_stdout();
}

void RunOutput::say_notes() {
  for (std::string& note : notes_) say_note(note);
}

void print_answer_notes(const GenerateResult& result, const RunOptions& options) {
  std::vector<std::string> notes;
  if (result.reason == StopReason::ContextFull)
    notes.push_back("cria: the answer ends here: the context of " +
                    counted(options.model.session.n_ctx, "token") +
                    " is full (-c N makes it larger, --context-shift forgets the oldest tokens)");
  const bool silent = result.text.empty() && result.tool_calls.empty();
  if (silent && !result.reasoning.empty())
    notes.push_back(no_answer_note(result));
  else if (silent && result.reason == StopReason::EndOfGeneration)
    notes.emplace_back(
        "cria: note: the answer is empty: the model ended it at once (--ignore-eos makes it go on, "
        "another "
        "wording may help)");
  if (silent && result.reason == StopReason::StopString)
    notes.push_back("cria: note: the answer is empty: it began with the stop text \"" +
                    result.stop + "\"");
  if (options.model.verbose) notes.push_back(speed_line(result));
  const bool open =
      !result.text.empty() && !result.text.ends_with('\n') && !options.json && !options.stream_json;
  if (!notes.empty() && open && notes_follow_answer()) std::cerr << '\n';
  for (const std::string& note : notes) print_line(note);
}

}  // namespace cria::tools
