// `cria batch`: many requests of a file, many at once.
#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "engine/scheduler.h"
#include "model/plural.h"
#include "tools/commands/batch_answers.h"
#include "tools/commands/batch_request.h"
#include "tools/commands/commands.h"
#include "tools/model_store.h"
#include "tools/options/conversation.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/answer.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct BatchOptions {
  ModelOptions model;
  SamplingOptions sampling;
  Words inputs;
  std::string output = "-", chat_template;
  std::uint32_t parallel = 8;
  bool unordered = false, raw = false;
};

/// The lines of all files that are not blank.
std::vector<std::string> batch_lines(const Words& paths) {
  std::vector<std::string> lines;
  for (const std::string& path : paths) {
    std::istringstream text(read_file(path));
    for (std::string line; std::getline(text, line);)
      if (line.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

/// One run over the file.
class BatchRun {
 public:
  BatchRun(const BatchOptions& options, const Model& model, const GenerateOptions& defaults)
      : options_(options),
        model_(model),
        defaults_(defaults),
        template_(std::make_shared<const ChatTemplate>(
            choose_template(options.chat_template, model.vocabulary()))),
        lines_(batch_lines(options.inputs)),
        engine_(engine_options(options.model)),
        answers_(options.output, ids(), !options.unordered) {}

  int run(std::atomic<bool>& stop) {
    if (!lines_.empty() && answers_.count() == lines_.size())
      print_note(options_.output +
                 " has all answers already; another -o FILE answers the requests again");
    prepare();
    if (std::ranges::any_of(ready_, &Ready::chat)) {
      std::string note = template_->note();
      print_and_clear(note);
    }
    if (!ready_.empty()) {
      Engine engine(model_, wanted_engine());
      engine.profile(options_.model.profile);
      Scheduler scheduler(engine);
      answer(scheduler, stop);
      progress_.reset();
      print_profile(engine.profile(), options_.model.profile);
    }
    print_summary();
    if (stop) return interrupted_exit();
    return !lines_.empty() && answers_.errors() + errors_ == lines_.size() ? 1 : 0;
  }

 private:
  struct Ready {
    std::size_t index;
    BatchRequest request;
    AnswerRequest answer;
    bool chat;
  };

  std::vector<std::string> ids() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < lines_.size(); ++i) all.push_back(batch_answer_id(i, lines_[i]));
    return all;
  }

  /// Without --seed: takes the seed of the interrupted run, which its requests without seed have
  /// used.
  void find_seed() {
    GenerateOptions none = defaults_;
    none.sampler.seed.reset();
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const auto seed = answers_.seed(i);
      if (!seed || parse_batch_request(lines_[i], none).generate.sampler.seed) continue;
      defaults_.sampler.seed = *seed;
      return;
    }
  }

  /// Requests to tokens, so that the memory needed is known; those that cannot be answered are now.
  void prepare() {
    if (!options_.sampling.generate.sampler.seed) find_seed();
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (answers_.answered(i)) continue;
      try {
        ready_.push_back(read(i));
      } catch (const Error& error) {
        add_error(i, identify_batch_request(lines_[i]), error);
      }
    }
  }

  Ready read(std::size_t index) {
    Ready ready{index, parse_batch_request(lines_[index], defaults_), {}, true};
    BatchRequest& request = ready.request;
    if (options_.raw && !request.raw) request.raw = true;
    if (options_.raw && !request.conversation.messages.empty())
      throw Error("", "messages need a chat template, which --raw leaves out");
    const bool templated =
        !options_.chat_template.empty() || !model_.vocabulary().chat_template.empty();
    ready.chat = !request.conversation.messages.empty() || !request.raw.value_or(!templated);
    const std::uint32_t given = options_.model.session.n_ctx;
    if (ready.chat) {
      if (request.conversation.messages.empty())
        request.conversation.messages = {{"user", request.prompt}};
      ChatOptions how;
      how.chat_template = template_;
      how.variables = request.conversation.variables;
      note_unused(index, request.conversation);
      const std::size_t most = given == 0 ? model_.context_length() : given;
      ready.answer =
          chat_request(model_, most, request.conversation.messages, request.generate, how);
    } else {
      ready.answer.prompt = model_.tokenizer().encode(request.prompt, true, true);
      ready.answer.options = request.generate;
    }
    const std::size_t n = ready.answer.prompt.size();
    ready.answer.n_ctx = given == 0 ? context_for(model_, n, request.generate.max_tokens) : given;
    check(request.generate.sampler, model_.token_count());
    if (n == 0) throw Error("", "the prompt is empty and the model has no token to begin with");
    if (n > ready.answer.n_ctx)
      throw Error("", "the prompt is too long: expected at most " +
                          counted(ready.answer.n_ctx, "token") + ", got " + std::to_string(n));
    return ready;
  }

  /// Once for each name: a misspelt option would be lost without a word.
  void note_unused(std::size_t index, const Conversation& talk) {
    for (const std::string& name : unused_names(talk, *template_))
      if (noted_.insert(name).second)
        print_note("\"" + name + "\" in request " + std::to_string(index + 1) +
                   " changes nothing: the chat template does not use it");
  }

  /// KV positions for all requests at once if memory allows, at least for the longest.
  EngineOptions wanted_engine() const {
    EngineOptions wanted = engine_;
    wanted.rope_ctx = wanted.n_ctx == 0 ? model_.context_length() : wanted.n_ctx;
    wanted.n_ctx = 0;
    wanted.sequences = options_.parallel;
    for (const Ready& ready : ready_)
      wanted.n_ctx = std::max(wanted.n_ctx, static_cast<std::uint32_t>(ready.answer.n_ctx));
    return fit_positions(model_, wanted, options_.model.verbose);
  }

  void answer(Scheduler& scheduler, std::atomic<bool>& stop) {
    const std::size_t before = answers_.count();  // answered by an earlier run or refused
    progress_.emplace("answering", "tokens", 0);
    for (const Ready& ready : ready_) waiting_ += ready.answer.prompt.size() + most_tokens(ready);
    std::size_t next = 0;
    while (!stop) {
      while (next < ready_.size() && scheduler.waiting() < options_.parallel)
        submit(scheduler, ready_[next++], stop);
      if (!scheduler.step(&stop) && next == ready_.size()) return;
      if (failed_) std::rethrow_exception(failed_);
      show_progress(scheduler, answers_.count() - before, lines_.size() - before);
    }
  }

  static std::size_t most_tokens(const Ready& ready) {
    const std::int64_t most = ready.answer.options.max_tokens;
    const std::size_t room = ready.answer.n_ctx - ready.answer.prompt.size();
    return most < 0 ? room : std::min(room, static_cast<std::size_t>(most));
  }

  /// Counts tokens, since the first answers may take minutes. The total is what answers may become;
  /// those that end early make it smaller.
  void show_progress(const Scheduler& scheduler, std::size_t answered, std::size_t lines) {
    std::size_t done = prompts_ + tokens_, left = waiting_;
    for (const Scheduler::Progress& one : scheduler.progress()) {
      done += one.drawn;
      done -= std::min(done, one.to_read);
      left += one.to_read + one.may_draw;
    }
    progress_->expect(done + left);
    progress_->update(done, std::to_string(answered) + " of " + counted(lines, "answer"));
  }

  void submit(Scheduler& scheduler, Ready& ready, const std::atomic<bool>& stop) {
    const std::size_t prompt = ready.answer.prompt.size(), most = most_tokens(ready);
    AnswerRequest request = std::move(ready.answer);
    request.on_begin = [this, prompt, most](double) {
      waiting_ -= prompt + most;
      prompts_ += prompt;
    };
    request.on_end = [this, &ready, &stop](const GenerateResult& result,
                                           const std::optional<Error>& error) {
      try {
        tokens_ += result.tokens.size();
        if (error && stop) return;  // the stop may be the cause: the next run asks again
        if (error) return add_error(ready.index, ready.request, *error);
        if (result.reason != StopReason::Interrupted) add_answer(ready, result);
      } catch (...) {  // the disk: the run ends
        failed_ = std::current_exception();
      }
    };
    scheduler.add(std::move(request));
  }

  Json head(std::size_t index, const BatchRequest& request) const {
    Json json = {{"id", batch_answer_id(index, lines_[index])}};
    if (!request.custom_id.empty()) json["custom_id"] = request.custom_id;
    return json;
  }

  void add(std::size_t index, const Json& json) {
    std::string line = json_line(json);
    line.pop_back();
    if (options_.output == "-" && progress_) progress_->wipe();  // both may be on one terminal
    answers_.add(index, line);
  }

  void add_answer(const Ready& ready, const GenerateResult& result) {
    const AnswerFacts facts{model_, *ready.request.generate.sampler.seed, ready.chat};
    Json json = head(ready.index, ready.request);
    if (ready.request.openai) {
      json["response"] = {{"status_code", 200},
                          {"request_id", json["id"]},
                          {"body", answer_json_without_timing(result, facts)}};
      json["error"] = nullptr;
    } else {
      json.update(answer_json_without_timing(result, facts));
    }
    add(ready.index, json);
  }

  void add_error(std::size_t index, const BatchRequest& request, const Error& error) {
    Json json = head(index, request);
    if (request.openai) json["response"] = nullptr;
    json["error"] = {{"code", "invalid_request"}, {"message", error.what()}};
    add(index, json);
    ++errors_;
  }

  void print_summary() {
    if (const std::size_t errors = answers_.errors() + errors_; errors > 0)
      print_warning(counted(errors, "request") + " could not be answered: see \"error\" in " +
                    (options_.output == "-" ? "the answers" : options_.output));
    if (answers_.count() < lines_.size())
      print_line("cria: " + std::to_string(answers_.count()) + " of " +
                 counted(lines_.size(), "request") + " answered" +
                 (options_.output == "-" ? "" : "; run the same command again to continue"));
  }

  const BatchOptions& options_;
  const Model& model_;
  GenerateOptions defaults_;  // for fields that requests leave out
  const std::shared_ptr<const ChatTemplate> template_;
  const std::vector<std::string> lines_;
  const EngineOptions engine_;
  BatchAnswers answers_;
  std::optional<Progress> progress_;  // while requests are answered
  std::deque<Ready> ready_;
  std::set<std::string> noted_;  // names of variables that the template does not use
  std::size_t tokens_ = 0, errors_ = 0;
  std::size_t prompts_ = 0;  // tokens of prompts whose answers have begun
  std::size_t waiting_ = 0;  // tokens that requests may take which have not begun
  std::exception_ptr failed_;
};

int run_batch(BatchOptions options) {
  if (options.inputs.empty()) {
    if (is_terminal(stdin)) throw UsageError("--input", "is missing: -i FILE has the requests");
    options.inputs = {"-"};
  }
  note_unread_stdin("--input", options.inputs);
  GenerateOptions defaults = options.sampling.resolve();
  std::atomic<bool>& stop = catch_interrupts();
  const auto model = load_model(options.model);
  options.sampling.follow(model->file(), defaults.sampler);
  return BatchRun(options, *model, defaults).run(stop);
}

}  // namespace

void add_batch(Program& program) {
  Command& command = program.add("batch", "Answer the requests of a file, many at once");
  auto options = std::make_shared<BatchOptions>();
  BatchOptions& o = *options;
  o.sampling.command = &command;
  command.add({
      {"-i,--input", "FILE",
       "requests, one JSON object per line (-: stdin, the default); several are read in order",
       into::each(o.inputs)},
      {"-o,--output", "FILE",
       "answers, one line per request (-: stdout, the default); requests already answered in the "
       "file are skipped",
       into::text(o.output)},
      {"--parallel", "N", "requests answered at once", into::number(o.parallel, 1, 1024)},
      {"--unordered", "", "write answers as they are completed, not in order",
       into::flag(o.unordered)},
      {"--raw", "", "no chat template: the model continues the prompt as plain text",
       into::flag(o.raw)},
      template_flag(o.chat_template),
  });
  command.add(model_flags(o.model));
  command.add(o.sampling.flags());
  command.add(o.sampling.constraint_flags());
  command.add(speculation_flags(o.model, o.sampling.generate));
  command.notes =
      "A request has OpenAI's form, {\"custom_id\", \"url\", \"body\"}, or is an object with "
      "\"prompt\" or "
      "\"messages\", and max_tokens, temperature, seed and so on. Options given here apply where a "
      "request "
      "leaves them out.\n"
      "Each answer is the one that cria run gives, regardless of other requests. Common "
      "prefixes of prompts are evaluated once.\n"
      "A request that cannot be answered gets an \"error\" among the answers. A warning counts "
      "these; the exit code is 1 only if no request could be answered.\n\n"
      "Examples:\n"
      "  cria batch -m model.gguf -i requests.jsonl -o answers.jsonl --temp 0\n"
      "  cria batch -i requests.jsonl -o answers.jsonl --parallel 32 --unordered\n"
      "  cria batch < requests.jsonl > answers.jsonl";
  command.run = [options] { return run_batch(*options); };
}

}  // namespace cria::tools
