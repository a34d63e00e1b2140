// `cria run`: one prompt, one answer on stdout.
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/common.h"
#include "tools/conversation.h"
#include "tools/interrupt.h"
#include "tools/sampling_options.h"
#include "tools/template_options.h"
#include "tools/terminal.h"

namespace cria::tools {
namespace {

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  TextInput prompt;
  std::string messages, system, chat_template, session_file;
  bool chat = false, json = false;
};

struct Prompt {
  std::vector<TokenId> tokens;
  std::size_t keep = 0;                 // of them, what a context shift must not drop
  std::vector<std::string> stops = {};  // of the template
  std::string note = {};                // of the template
};

Prompt read_prompt(const Model& model, const RunOptions& options) {
  if (options.messages.empty() && !options.chat)
    return {model.tokenizer().encode(options.prompt.read(), true, true)};
  const ChatTemplate chat_template = choose_template(options.chat_template, model.vocabulary());
  Conversation talk;
  if (options.messages.empty())
    talk.messages.push_back({"user", options.prompt.read()});
  else
    talk = read_conversation(options.messages);
  if (!options.system.empty()) talk.messages.insert(talk.messages.begin(), {"system", options.system});
  RenderOptions render;
  render.variables = talk.variables;
  return {chat_template.encode(model.tokenizer(), talk.messages, render),
          system_tokens(model.tokenizer(), chat_template, talk.messages, render), chat_template.stops(),
          chat_template.note()};
}

/// Without -c: room for the prompt and its answer, within what the model was trained for.
std::uint32_t context_for(const LlamaConfig& config, std::size_t prompt, std::int64_t max_tokens) {
  constexpr std::size_t kUsual = 4096;
  const std::size_t answer = max_tokens < 0 ? kUsual / 2 : static_cast<std::size_t>(max_tokens);
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(config.n_ctx_train, std::max(kUsual, prompt + answer)));
}

nlohmann::ordered_json result_json(const GenerateResult& result, const std::string& text,
                                   std::uint64_t seed) {
  const auto rate = [](std::size_t n, double seconds) {
    return seconds > 0 ? static_cast<double>(n) / seconds : 0.0;
  };
  return {{"text", text},
          {"tokens", result.tokens},
          {"stop_reason", name(result.reason)},
          {"seed", seed},
          {"prompt_tokens", result.prompt_tokens},
          {"prompt_seconds", result.prompt_seconds},
          {"prompt_tokens_per_second", rate(result.prompt_tokens, result.prompt_seconds)},
          {"decode_seconds", result.decode_seconds},
          {"tokens_per_second", rate(result.tokens.size(), result.decode_seconds)}};
}

void print_notes(const GenerateResult& result, const Session& session, const RunOptions& options) {
  if (result.reason == StopReason::ContextFull)
    std::cerr << "cria: the answer ends here: the context of " << session.options().n_ctx
              << " tokens is full (-c N makes it larger, --context-shift forgets the oldest tokens)\n";
  if (options.model.verbose) std::cerr << speed_line(result) << '\n';
}

int run(RunOptions options) {
  GenerateOptions wanted = options.sampling.resolve();
  wanted.interrupt = &catch_interrupts();
  const auto model = load_model(options.model);
  Prompt prompt = read_prompt(*model, options);
  if (prompt.tokens.empty()) throw Error("", "the prompt is empty and the model has no token to begin with");
  wanted.keep = prompt.keep;
  wanted.stop.insert(wanted.stop.end(), prompt.stops.begin(), prompt.stops.end());
  if (options.model.session.n_ctx == 0)
    options.model.session.n_ctx = context_for(model->config(), prompt.tokens.size(), wanted.max_tokens);
  const auto session = open_session(*model, options.model);
  require_room(*session, prompt.tokens.size());

  if (has_session_file(options.session_file)) session->load(options.session_file);

  std::string text;
  const GenerateResult result = generate(*session, prompt.tokens, wanted, [&](std::string_view piece) {
    text += piece;
    if (options.json) return true;
    say_note(prompt.note);
    write_stdout(piece);
    flush_stdout();
    return true;
  });
  say_note(prompt.note);
  if (options.json) {
    constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
    write_stdout(result_json(result, text, wanted.sampler.seed).dump(2, ' ', false, kReplace) + "\n");
  } else if (is_terminal(stdout) && !text.ends_with('\n')) {
    write_stdout("\n");
  }
  flush_stdout();
  if (!options.session_file.empty()) session->save(options.session_file);
  print_notes(result, *session, options);
  print_profile(*session, options.model);
  return result.reason == StopReason::Interrupted ? interrupted_exit() : 0;
}

}  // namespace

void add_run(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("run", "Answer one prompt: the completion on stdout and nothing else");
  auto options = std::make_shared<RunOptions>();
  options->prompt.add_to(*command, "the prompt");
  command
      ->add_option("--messages", options->messages,
                   "a conversation to answer: a JSON array of {\"role\", \"content\"}, or an object with "
                   "\"messages\" and "
                   "what else the template may ask for, \"tools\" say (-: stdin)")
      ->type_name("FILE")
      ->excludes("--prompt")
      ->excludes("--file");
  command->add_flag("--chat", options->chat, "the prompt is a user's message: use the model's chat template");
  command->add_option("-s,--system", options->system, "system message, for --chat and --messages")
      ->type_name("TEXT");
  add_template_option(*command, options->chat_template);
  add_session_option(*command, options->session_file,
                     "keep what was read and said in this file: a prompt that begins in the same way is read "
                     "from where it differs");
  command->add_flag("--json", options->json, "a JSON object with text, tokens and speed at the end");
  add_model_options(*command, options->model);
  command->add_flag("--context-shift", options->model.session.context_shift,
                    "when the context is full, forget the oldest half and go on");
  options->sampling.add_to(*command);
  command->footer(
      "Examples:\n"
      "  cria run -m model.gguf -p \"The river rises in\" -n 64 --temp 0\n"
      "  cria run --chat -p \"What is the capital of France?\"\n"
      "  cria run --messages talk.json --json < /dev/null");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
