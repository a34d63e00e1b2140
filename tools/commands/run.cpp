// `cria run`: one prompt, one answer on stdout.
#include <nlohmann/json.hpp>

#include "model/plural.h"
#include "tools/cli/settings.h"
#include "tools/commands/commands.h"
#include "tools/commands/run_answer.h"
#include "tools/model_store.h"
#include "tools/options/conversation.h"
#include "tools/options/model.h"
#include "tools/options/session_file.h"
#include "tools/options/values.h"
#include "tools/report/answer.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

/// A text of the command line in which \n, \t, \r, \\, \" and \' are what C means by them.
std::string unescaped(std::string_view text) {
  constexpr std::string_view kNames = "ntr\\\"'", kMeant = "\n\t\r\\\"'";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t known =
        text[i] == '\\' && i + 1 < text.size() ? kNames.find(text[i + 1]) : std::string_view::npos;
    out += known == std::string_view::npos ? text[i] : kMeant[known];
    i += known == std::string_view::npos ? 0 : 1;
  }
  return out;
}

void note_escapes(const RunOptions& options) {
  const auto note = [](const std::string& text, const std::string& where) {
    if (text.find("\\n") != std::string::npos)
      print_note("\\n in " + where + " is two characters; -e makes it a newline");
  };
  note(options.prompt.text.value_or(""), "the prompt");
  note(options.system, "the system message");
}

void unescape(RunOptions& options) {
  if (options.prompt.text) options.prompt.text = unescaped(*options.prompt.text);
  options.system = unescaped(options.system);
  GenerateOptions& generate = options.sampling.generate;
  for (std::string& text : generate.stop) text = unescaped(text);
  for (std::string& text : generate.sampler.dry_sequence_breakers) text = unescaped(text);
}

/// Returns the prompt with what comes from a pipe before it, a blank line between them:
/// `cria run "Summarize this:" < notes.txt`.
std::string read_prompt_text(const RunOptions& options) {
  const Words& files = options.prompt.files;
  const bool tools_from_stdin = is_stdin(options.variables.tools);
  const bool from_stdin =
      !options.prompt.text && (files.empty() || std::ranges::any_of(files, is_stdin));
  if (from_stdin && tools_from_stdin)
    throw UsageError("--tools", "stdin cannot be both the tools and the prompt");
  const std::string text = options.prompt.read();
  return from_stdin || tools_from_stdin ? text : after_piped_stdin(text);
}

/// The message that is read, without the newline that files and `echo` end with.
std::string read_message(const RunOptions& options) {
  std::string text = read_prompt_text(options);
  if (!options.prompt.text) remove_last_newline(text);
  if (text.empty()) print_note("the prompt is empty");
  return text;
}

/// Returns the conversation that `cria chat` left in a session file, or none.
Conversation session_conversation(const std::string& file) {
  const std::string note = has_session_file(file) ? session_note(file) : "";
  try {
    return note.empty() ? Conversation() : parse_conversation(note, file);
  } catch (const Error&) {
    return {};  // load() says what is wrong
  }
}

/// True if the prompt is a message for the model's template, false if the model continues it as
/// text.
bool is_chat(const Model& model, const RunOptions& options) {
  if (options.raw) return false;
  return options.chat || !options.messages.empty() || !options.system.empty() ||
         !options.variables.tools.empty() || !options.chat_template.empty() ||
         !model.vocabulary().chat_template.empty();
}

RunPrompt read_prompt(const Model& model, const RunOptions& options) {
  RunPrompt prompt;
  Conversation talk = session_conversation(options.session_file);
  prompt.continues = !talk.messages.empty();
  const bool chat = is_chat(model, options);
  if (prompt.continues && (!chat || !options.messages.empty()))
    throw Error(options.session_file, "holds a conversation of cria chat, which " +
                                          std::string(chat ? "--messages" : "a raw prompt") +
                                          " cannot continue; choose another --session file");
  if (!chat) {
    prompt.notes = {options.variables.note_without_template()};
    const std::string text = read_prompt_text(options);
    prompt.tokens = model.tokenizer().encode(text, true, true);
    if (options.show_prompt) print_prompt(text, prompt.tokens);
    if (prompt.tokens.empty())
      throw Error("", "the prompt is empty and the model has no token to begin with");
    return prompt;
  }
  prompt.how.chat_template = std::make_shared<const ChatTemplate>(
      choose_template(options.chat_template, model.vocabulary()));
  prompt.notes = {prompt.how.chat_template->note(),
                  options.variables.note(*prompt.how.chat_template)};
  if (is_stdin(options.messages) && is_stdin(options.variables.tools))
    throw UsageError("--tools", "stdin cannot be both the tools and the messages");
  if (!options.messages.empty() && !is_stdin(options.messages) &&
      !is_stdin(options.variables.tools) && has_piped_stdin())
    throw UsageError("--messages",
                     "stdin has a text that would be lost: put it into the messages, or add "
                     "< /dev/null");
  if (options.messages.empty())
    talk.messages.push_back({"user", read_message(options)});
  else
    talk = read_conversation(options.messages);
  if (!options.messages.empty())
    for (const std::string& name : unused_names(talk, *prompt.how.chat_template))
      print_note("\"" + name +
                 "\" in --messages changes nothing: the chat template does not use it");
  if (talk.messages.empty()) throw Error("--messages", "expected at least one message");
  if (!prompt.continues && has_session_file(options.session_file))
    print_note(options.session_file +
               " holds no conversation of cria chat: the prompt is answered on its own");
  const std::string system =
      has_system_message(talk.messages) ? talk.messages.front().content : options.system;
  if (set_system_option(talk.messages, options.system, *options.sampling.command) &&
      system != options.system && prompt.continues)
    print_note("the system message of " + options.session_file + " is that of -s now");
  prompt.messages = std::move(talk.messages);
  prompt.variables = std::move(talk.variables);
  prompt.how.variables = options.variables.over(prompt.variables);
  prompt.how.calls = options.variables.calls(*prompt.how.chat_template, prompt.how.variables);
  prompt.how.drop_oldest = options.model.session.context_shift;
  if (options.show_prompt) prompt.how.on_prompt = print_prompt;
  return prompt;
}

std::size_t token_count(const Model& model, const RunPrompt& prompt) {
  return prompt.how.chat_template ? count_prompt_tokens(model, prompt.messages, prompt.how)
                                  : prompt.tokens.size();
}

GenerateResult answer(Session& session, const RunPrompt& prompt, GenerateOptions options,
                      const TextSink& sink) {
  options.progress = reading_progress();
  if (prompt.how.chat_template) return session.chat(prompt.messages, options, sink, prompt.how);
  require_room(session, prompt.tokens.size());
  if (const std::uint32_t n_ctx = session.options().n_ctx; prompt.tokens.size() > n_ctx)
    print_note("the prompt has " + counted(prompt.tokens.size(), "token") +
               ", and the context holds " + std::to_string(n_ctx) + ": the oldest are forgotten");
  return session.generate(prompt.tokens, options, sink);
}

/// Returns the conversation with its answer, for the session file; "" if the file held none.
std::string continued_conversation(const RunPrompt& prompt, const GenerateResult& result) {
  if (!prompt.continues) return "";
  Conversation talk{prompt.messages, prompt.variables};
  const auto oldest = talk.messages.begin() + (has_system_message(talk.messages) ? 1 : 0);
  talk.messages.erase(oldest, oldest + static_cast<std::ptrdiff_t>(result.dropped));
  if (result.text.empty() && result.reason == StopReason::Interrupted)
    talk.messages.pop_back();
  else
    talk.messages.push_back(answer_message(result));
  return conversation_json(talk);
}

int run(RunOptions options) {
  GenerateOptions wanted = options.sampling.resolve();
  wanted.interrupt = &catch_interrupts();
  wanted.logprobs = options.logprobs;
  const auto model = load_model(options.model);
  options.sampling.follow(model->file(), wanted.sampler);
  const SessionFile session_file(options.session_file);
  RunPrompt prompt = read_prompt(*model, options);
  if (options.model.session.n_ctx == 0) {
    options.model.session.rope_ctx = model->config().n_ctx_train;
    options.model.session.n_ctx =
        context_for(*model, token_count(*model, prompt), wanted.max_tokens);
  }
  if (options.choices != 0) {
    warn_of_long_context(*model, options.model);
    answer_several(options, *model, prompt, wanted);
    return *wanted.interrupt ? interrupted_exit() : 0;
  }
  const auto session = open_session(*model, options.model);
  warn_of_long_context(*model, options.model);
  if (has_session_file(options.session_file)) session->load(options.session_file);

  const AnswerFacts facts{*model, *wanted.sampler.seed, prompt.how.chat_template != nullptr};
  RunOutput output(options, facts, prompt.notes);
  const auto sink_of = [&output](AnswerPart part) {
    return [&output, part](std::string_view piece) {
      output.show(part, piece);
      return true;
    };
  };
  wanted.on_thinking = sink_of(AnswerPart::Thinking);
  wanted.on_call = [&output](const ToolCall& call) { output.show(call); };
  const GenerateResult result = answer(*session, prompt, wanted, sink_of(AnswerPart::Answer));
  output.finish(result);
  session_file.save([&](const std::string& target) {
    session->save(target, continued_conversation(prompt, result));
  });
  print_answer_notes(result, options, prompt.how.chat_template != nullptr);
  print_profile(session->profile(), options.model.profile);
  return result.reason == StopReason::Interrupted ? interrupted_exit() : 0;
}

/// The prompt, and how it is understood.
Flags prompt_flags(RunOptions& o) {
  const auto set_prompt = [&o](const Words& given) {
    Words words = given;  // stdin comes before a prompt anyway
    if (words.back() == "-") words.pop_back();
    if (words.empty())
      o.prompt.files = {"-"};
    else
      o.prompt.text = joined(words, " ");
  };
  constexpr std::string_view kNotRaw =
      "--chat,--system,--chat-template,--messages,--think,--no-think,--reasoning-effort,"
      "--chat-template-kwargs,--tools,--tool-format";
  Flags rows = o.prompt.flags("the prompt");
  const auto add = [&rows](Flags more) { std::ranges::move(more, std::back_inserter(rows)); };
  add({{"PROMPT",
        "",
        "the prompt, in one word or several (-: stdin, the default)",
        Target{.takes = Target::Takes::All, .set = set_prompt},
        {.excludes = "--prompt,--file"}},
       {"--messages",
        "FILE",
        "a conversation to answer: a JSON array of {\"role\", \"content\"}, or an object with "
        "\"messages\" and further variables for the template, such as \"tools\" (-: stdin)",
        into::once(into::text(o.messages)),
        {.excludes = "--prompt,--file,PROMPT"}},
       {"-e,--escape", "",
        "in the prompt, the system message and stop strings on the command line, \\n means a "
        "newline, \\t a tab",
        into::flag(o.escapes)},
       {"--raw",
        "",
        "no chat template, even if the model has one: the model continues the prompt as plain text",
        into::flag(o.raw),
        {.excludes = kNotRaw}},
       {"--chat", "",
        "the prompt is a user's message, even if the model has no chat template of its own",
        into::flag(o.chat)},
       {"-s,--system", "TEXT", "system message, instead of the one in --messages",
        into::text(o.system)},
       template_flag(o.chat_template)});
  add(o.variables.flags());
  add({o.variables.tools_flag(),
       call_form_flag(o.variables.call_form),
       show_prompt_flag(o.show_prompt),
       {"--show-thinking", "", "also print what the model thinks before its answer",
        into::flag(o.show_thinking)}});
  return rows;
}

}  // namespace

void add_run(Program& program) {
  Command& command = program.add("run", "Answer one prompt; stdout gets only the answer");
  auto options = std::make_shared<RunOptions>();
  RunOptions& o = *options;
  o.sampling.command = &command;
  command.add(prompt_flags(o));
  command.add({
      session_flag(o.session_file,
                   "keep the state in this file: the next prompt reuses the common prefix. If it "
                   "is cria chat's, continue the conversation"),
      {"--json", "", "print one JSON object at the end, with text, tokens and speed",
       into::flag(o.json)},
      {"--stream-json",
       "",
       "print a JSON object per line for each piece of the answer, and that of --json at the end",
       into::flag(o.stream_json),
       {.excludes = "--json"}},
      {"--logprobs",
       "N",
       "in the JSON: log-probabilities of the answer's tokens, and of the N most likely tokens at "
       "each position",
       into::number(o.logprobs, 0, 1 << 20),
       {.needs = "--json,--stream-json"}},
  });
  command.add(model_flags(o.model));
  command.add({
      {"--context-shift", "", "when the context is full, forget the oldest half and continue",
       into::flag(o.model.session.context_shift)},
      {"--choices-of",
       "K",
       "K answers, with seeds SEED, SEED+1, …, each the same as with its seed alone; the prompt is "
       "evaluated only once. Answers are separated by a line \"---\" (with --json: an array)",
       into::number(o.choices, 1, 1024),
       {.excludes = "--context-shift,--session,--profile,--stream-json"}},
  });
  command.add(o.sampling.flags());
  command.add(o.sampling.constraint_flags());
  command.add(speculation_flags(o.model, o.sampling.generate));
  command.notes =
      "What comes from a pipe or a file on stdin stands before the prompt. A loop that reads lines "
      "(while read) needs < /dev/null, or the first run takes all of them.\n\n"
      "Examples:\n"
      "  cria run \"What is the capital of France?\"\n"
      "  cria run -m model.gguf --raw -p \"The river rises in\" -n 64 --temp 0\n"
      "  cria run \"Tell me a story.\" --temp 1.2 --min-p 0.1 --dry-multiplier 0.8 "
      "--xtc-probability 0.5\n"
      "  cria run -e \"Write one line.\\nThen another.\" --seed 7\n"
      "  cria run -m qwen3.gguf \"How many days has a leap year?\" --no-think\n"
      "  cria run -m qwen3.gguf \"Is it raining in Rome?\" --tools tools.json --json\n"
      "  cria run \"Tell me a story.\" --temp 1 --seed 1 --choices-of 4\n"
      "  cria run --messages chat.json --json --logprobs 3\n"
      "  cria run \"Summarize this in one sentence.\" < notes.txt";
  command.run = [options] {
    if (options->prompt.text == "-") options->prompt = {.text = std::nullopt, .files = {"-"}};
    options->escapes ? unescape(*options) : note_escapes(*options);
    return run(*options);
  };
}

}  // namespace cria::tools
