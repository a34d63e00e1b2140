#include "tools/commands/run_answer.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "engine/scheduler.h"
#include "model/plural.h"
#include "tools/model_store.h"
#include "tools/options/model.h"
#include "tools/report/answer.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

/// True if the answer's last line is complete: a chat's answer is a line in a pipe, too, but the
/// continuation of a raw prompt has exactly the model's bytes.
bool ends_line(const GenerateResult& result, bool chat) {
  return result.text.ends_with('\n') || !result.tool_calls.empty() || is_terminal(stdout) ||
         (chat && !result.text.empty());
}

/// True if a note on stderr would appear behind an answer without a final newline.
bool notes_follow_answer() {
  struct stat out = {}, err = {};
  const bool same = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
                    out.st_dev == err.st_dev && out.st_ino == err.st_ino;
  return same || is_terminal(stderr);
}

}  // namespace

void RunOutput::show(AnswerPart part, std::string_view piece) {
  print_notes();
  if (options_.stream_json)
    write_stdout(json_line(piece_json(part, piece, facts_)));
  else if (!options_.json && part == AnswerPart::Answer)
    view_.answer(piece);
  else if (!options_.json && options_.show_thinking)
    view_.think(piece);
  flush_stdout();
}

void RunOutput::show(const ToolCall& call) {
  print_notes();
  if (options_.stream_json)
    write_stdout(json_line(call_piece_json(call, calls_++, facts_)));
  else if (!options_.json)
    view_.call(call_line(call));
  flush_stdout();
}

void RunOutput::finish(const GenerateResult& result) {
  print_notes();
  view_.finish();
  if (options_.json)
    write_stdout(json_text(answer_json(result, facts_)));
  else if (options_.stream_json)
    write_stdout(json_line(answer_json(result, facts_)));
  else if (!result.text.ends_with('\n') && result.tool_calls.empty() &&
           ends_line(result, facts_.chat))
    write_stdout("\n");
  flush_stdout();
}

void RunOutput::print_notes() {
  for (std::string& note : notes_) print_and_clear(note);
}

void print_answer_notes(const GenerateResult& result, const RunOptions& options, bool chat) {
  std::vector<std::string> notes;
  if (result.reason == StopReason::ContextFull)
    notes.push_back("cria: the answer ends here: the context of " +
                    counted(options.model.session.n_ctx, "token") +
                    " is full (-c N makes it larger, --context-shift forgets the oldest tokens)");
  if (result.dropped > 0)
    notes.push_back("cria: note: the oldest " + counted(result.dropped, "message") +
                    " did not fit into the context of " +
                    counted(options.model.session.n_ctx, "token") + " and " +
                    (result.dropped == 1 ? "was" : "were") + " left out");
  const bool silent = result.text.empty() && result.tool_calls.empty();
  if (silent && !result.reasoning.empty())
    notes.push_back(no_answer_note(result));
  else if (silent && result.reason == StopReason::EndOfGeneration)
    notes.emplace_back(
        "cria: note: the answer is empty: the model ended it at once (--ignore-eos makes it "
        "continue, "
        "another "
        "wording may help)");
  if (silent && result.reason == StopReason::StopString)
    notes.push_back("cria: note: the answer is empty: it began with the stop string \"" +
                    result.stop + "\"");
  if (options.model.verbose) notes.push_back(speed_line(result));
  const bool open =
      !result.text.empty() && !ends_line(result, chat) && !options.json && !options.stream_json;
  if (!notes.empty() && open && notes_follow_answer()) std::cerr << '\n';
  for (const std::string& note : notes) print_line(note);
}

namespace {

/// The answers to one prompt, shown in the order of their seeds.
class Choices {
 public:
  Choices(const RunOptions& options, const Model& model, RunPrompt& prompt,
          const GenerateOptions& wanted)
      : options_(options),
        model_(model),
        prompt_(prompt),
        wanted_(wanted),
        ended_(options.choices) {}

  void answer() {
    Engine engine(model_, wanted_engine());
    Scheduler scheduler(engine);
    const AnswerRequest request = question(engine.options().n_ctx);
    for (std::size_t i = 0; i < ended_.size(); ++i) {
      AnswerRequest one = choice(request, i);
      if (i == 0) one.options.progress = reading_progress();
      one.on_end = [this, i](GenerateResult result, const std::optional<Error>& error) {
        ended_[i] = {std::move(result), error, true};
      };
      scheduler.add(std::move(one));
    }
    while (scheduler.step(wanted_.interrupt)) show_ended();
    show_ended();
    if (options_.json) write_stdout(json_text(all_));
    flush_stdout();
  }

 private:
  struct Ended {
    GenerateResult result;
    std::optional<Error> error;
    bool has = false;
  };

  /// KV positions for all answers at once if memory allows, else for fewer.
  EngineOptions wanted_engine() const {
    EngineOptions wanted = engine_options(options_.model);
    wanted.sequences = static_cast<std::uint32_t>(std::min<std::size_t>(options_.choices, 32));
    return fit_positions(model_, wanted, options_.model.verbose);
  }

  AnswerRequest question(std::size_t n_ctx) const {
    if (prompt_.how.chat_template)
      return chat_request(model_, n_ctx, prompt_.messages, wanted_, prompt_.how);
    AnswerRequest request;
    request.prompt = prompt_.tokens;
    request.options = wanted_;
    return request;
  }

  /// In the order of their seeds.
  void show_ended() {
    for (; shown_ < ended_.size() && ended_[shown_].has; ++shown_) {
      Ended& one = ended_[shown_];
      if (one.error) throw Error(*one.error);
      show(one.result, *wanted_.sampler.seed + shown_);
      one.result = {};
    }
  }

  void show(const GenerateResult& result, std::uint64_t seed) {
    const AnswerFacts facts{model_, seed, prompt_.how.chat_template != nullptr};
    if (options_.json) {
      for (std::string& note : prompt_.notes) print_and_clear(note);
      all_.push_back(answer_json(result, facts));
    } else {
      if (shown_ != 0) write_stdout(last_ends_line_ ? "---\n" : "\n---\n");
      RunOutput output(options_, facts, prompt_.notes);
      if (!result.reasoning.empty()) output.show(AnswerPart::Thinking, result.reasoning);
      if (!result.text.empty()) output.show(AnswerPart::Answer, result.text);
      for (const ToolCall& call : result.tool_calls) output.show(call);
      output.finish(result);
      last_ends_line_ = ends_line(result, facts.chat);
    }
    print_answer_notes(result, options_, prompt_.how.chat_template != nullptr);
  }

  const RunOptions& options_;
  const Model& model_;
  RunPrompt& prompt_;
  const GenerateOptions& wanted_;
  std::vector<Ended> ended_;
  std::size_t shown_ = 0;
  bool last_ends_line_ = false;
  Json all_ = Json::array();
};

}  // namespace

void answer_several(const RunOptions& options, const Model& model, RunPrompt& prompt,
                    const GenerateOptions& wanted) {
  Choices(options, model, prompt, wanted).answer();
}

}  // namespace cria::tools
