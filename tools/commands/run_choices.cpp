#include "tools/commands/run_choices.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "engine/scheduler.h"
#include "tools/commands/run_output.h"
#include "tools/options/find_model.h"
#include "tools/options/fit_positions.h"
#include "tools/report/answer_json.h"
#include "tools/report/generation.h"
#include "tools/report/json.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

/// Of one prompt; those that end early wait for those before them.
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
    std::shared_ptr<const Model> draft;
    if (!options_.model.draft.empty()) draft = Model::load(find_model(options_.model.draft));
    Engine engine(model_, wanted_engine(draft.get()));
    Scheduler scheduler(engine, {.draft = draft});
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

  /// Room for all at once where there is memory for it, else for fewer at a time.
  EngineOptions wanted_engine(const Model* draft) const {
    EngineOptions wanted = engine_options(options_.model);
    wanted.sequences = static_cast<std::uint32_t>(std::min<std::size_t>(options_.choices, 32));
    return fit_positions(model_, draft, wanted, options_.model.verbose);
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
      for (std::string& note : prompt_.notes) say_note(note);
      all_.push_back(answer_json(result, facts));
    } else {
      if (shown_ != 0) write_stdout(last_ends_line_ ? "---\n" : "\n---\n");
      RunOutput output(options_, facts, prompt_.notes);
      if (!result.reasoning.empty()) output.show(AnswerPart::Thinking, result.reasoning);
      if (!result.text.empty()) output.show(AnswerPart::Answer, result.text);
      for (const ToolCall& call : result.tool_calls) output.show(call);
      output.finish(result);
      last_ends_line_ =
          is_terminal(stdout) || result.text.ends_with('\n') || !result.tool_calls.empty();
    }
    print_answer_notes(result, options_);
  }

  const RunOptions& options_;
  const Model& model_;
  RunPrompt& prompt_;
  const GenerateOptions& wanted_;
  std::vector<Ended> ended_;
  std::size_t shown_ = 0;
  bool last_ends_line_ = false;
  nlohmann::ordered_json all_ = nlohmann::ordered_json::array();
};

}  // namespace

void answer_several(const RunOptions& options, const Model& model, RunPrompt& prompt,
                    const GenerateOptions& wanted) {
  Choices(options, model, prompt, wanted).answer();
}

}  // namespace cria::tools
