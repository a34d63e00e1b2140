// `cria chat`: a conversation in the terminal, or line by line from a pipe.
#include <iostream>
#include <utility>

#include "model/plural.h"
#include "tools/commands/chat_session.h"
#include "tools/commands/commands.h"
#include "tools/options/conversation.h"
#include "tools/options/session_file.h"
#include "tools/report/answer.h"
#include "tools/terminal/line_reader.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/wrap.h"

namespace cria::tools {
namespace {

/// The dialogue: reads, obeys or answers, until the end. Returns the exit code.
class Dialogue {
 public:
  Dialogue(ChatSession& chat, const SamplingOptions& sampling, bool interactive, bool verbose)
      : chat_(chat),
        interactive_(interactive),
        verbose_(verbose),
        reader_(LineReader::create(interactive, complete_command)),
        view_(interactive),
        state_{chat, *reader_, interactive, sampling,
               [this](std::string_view piece) { return show(AnswerPart::Answer, piece); }} {}

  /// A piece of an answer, or of the thinking before it.
  bool show(AnswerPart part, std::string_view piece) {
    print_notes();
    if (part == AnswerPart::Answer)
      view_.answer(piece);
    else
      view_.think(piece);
    return true;
  }

  /// first: the first message, or "".
  int run(const std::string& first) {
    if (!first.empty()) {
      if (interactive_) say("> " + first);
      if (!handle({.text = first, .literal = true})) return interrupted_exit();
    }
    TypedText typed;
    while (!state_.ended) {
      const Read read = read_message(*reader_, typed);
      if (read == Read::End) break;
      if (read == Read::Line) {
        idle_interrupt_ = false;
        if (typed.unclosed) say("the input ends before the \"\"\" that closes this message");
        if (typed.text.find_first_not_of(" \t\r\n") == std::string::npos) continue;
        if (!handle(typed)) return interrupted_exit();
      } else if (!goes_on_after(read)) {
        return interrupted_exit();
      }
    }
    return code_;
  }

 private:
  /// Handles Ctrl-C at the prompt: the second in a row on an empty line ends the chat.
  bool goes_on_after(Read read) {
    if (!interactive_ || terminated()) return false;
    interrupted_ = false;
    if (read == Read::Interrupt && idle_interrupt_) return false;
    idle_interrupt_ = read == Read::Interrupt;
    if (idle_interrupt_) say("Ctrl-C again or Ctrl-D ends the chat");
    return true;
  }

  /// False: an interrupt ends the chat.
  bool handle(const TypedText& typed) {
    state_.answered = false;
    const bool command = is_command(typed);
    try {
      if (!command) {
        state_.answer = chat_.answer(typed.text, state_.sink);
        state_.answered = true;
      } else {
        run_command(state_, typed.text);
      }
      if (state_.answered) end_answer(state_.answer, command);
    } catch (const OutputError&) {
      throw;  // answers could not be shown
    } catch (const std::bad_alloc&) {
      throw;                                 // the next message would fail too
    } catch (const std::exception& error) {  // whatever it is: the conversation is worth more
      print_error(error.what());
      if (!interactive_) code_ = 1;
    }
    if (!interrupted_) return true;
    if (!interactive_ || terminated()) return false;
    interrupted_ = false;
    return true;
  }

  void print_notes() {
    for (std::string& note : chat_.notes()) print_and_clear(note);
  }

  /// again: it is another answer to a message that has one.
  void end_answer(const GenerateResult& result, bool again) {
    print_notes();
    const bool nothing_began = result.text.empty() && result.reason == StopReason::Interrupted;
    view_.finish();
    if (!nothing_began) write_stdout("\n");
    flush_stdout();
    if (nothing_began)
      say(again ? "interrupted: the answer before stays" : "interrupted; your message was removed");
    if (result.text.empty() && !nothing_began)
      say(result.reasoning.empty() ? "the model ended its answer at once"
                                   : "the model was still thinking at the end");
    if (verbose_) say(speed_line(result));
    if (result.dropped != 0 && !std::exchange(said_forgotten_, true)) say(chat_.forgotten_text());
    if (result.reason == StopReason::ContextFull) say("the answer ends here: " + chat_.full_text());
  }

  ChatSession& chat_;
  bool interactive_, verbose_, idle_interrupt_ = false, said_forgotten_ = false;
  std::atomic<bool>& interrupted_ = catch_interrupts();
  std::unique_ptr<LineReader> reader_;
  AnswerView view_;
  ChatState state_;
  int code_ = 0;
};

/// The conversation of a session file, and what is in it. A system message of the command line
/// replaces its; one of the configuration does not.
void resume(ChatSession& chat, const ChatArguments& options) {
  chat.resume(options.session_file);
  const bool replaces = chat.set_system_option(options.system, *options.sampling.command);
  say("resumed " + options.session_file + ": " + counted(chat.messages().size(), "message") + ", " +
      chat.context_text() + (replaces ? "; the system message is that of -s now" : ""));
}

int run(const ChatArguments& options) {
  std::atomic<bool>& interrupted = catch_interrupts();
  const bool interactive = is_terminal(stdin) && is_terminal(stdout);
  SamplingOptions sampling = options.sampling;
  sampling.generate.interrupt = &interrupted;
  GenerateOptions generate = sampling.resolve();
  sampling.generate.sampler.seed = generate.sampler.seed;  // one seed, also after /set
  const auto model = load_model(options.model);
  sampling.follow(model->file(), sampling.generate.sampler);
  sampling.follow(model->file(), generate.sampler);
  const auto session = open_session(*model, options.model);
  warn_of_long_context(*model, options.model);
  ChatSession chat(*model, *session, options, generate, !interactive);
  if (options.show_prompt) chat.observe_prompts(print_prompt);
  const SessionFile session_file(options.session_file);
  if (has_session_file(options.session_file)) resume(chat, options);
  if (interactive) {
    say(chat.greeting());
    for (std::string& note : chat.notes()) print_and_clear(note);
  } else if (is_terminal(stdin)) {
    say("reading messages from the terminal, a line each; Ctrl-D ends");
  }
  Dialogue dialogue(chat, sampling, interactive, options.model.verbose);
  if (options.show_thinking || (interactive && !options.hide_thinking))
    chat.on_thinking(
        [&](std::string_view piece) { return dialogue.show(AnswerPart::Thinking, piece); });
  const int code = dialogue.run(options.prompt);
  session_file.save([&](const std::string& target) { chat.keep(target); });
  print_profile(session->profile(), options.model.profile);
  return code;
}

}  // namespace

void add_chat(Program& program) {
  Command& command = program.add("chat", "Talk with a model");
  auto options = std::make_shared<ChatArguments>();
  ChatArguments& o = *options;
  o.sampling.command = &command;
  command.add({{"PROMPT",
                "",
                "the first message, in one word or several",
                Target{.takes = Target::Takes::All,
                       .set = [&o](const Words& given) { o.prompt = joined(given, " "); }},
                {.excludes = "--prompt"}},
               {"-p,--prompt", "TEXT", "the first message", into::once(into::text(o.prompt))},
               {"-f,--file",
                "FILE",
                "the first message, from a file; several are read in order, as cat does",
                Target{.takes = Target::Takes::Each,
                       .set =
                           [&o](const Words& given) {
                             o.prompt = TextInput{.text = std::nullopt, .files = given}.read();
                             remove_last_newline(o.prompt);
                           }},
                {.excludes = "--prompt,PROMPT"}},
               {"-s,--system", "TEXT", "system message", into::text(o.system)},
               {"--no-template",
                "",
                "no chat template: the model continues your text",
                into::flag(o.no_template),
                {.excludes = "--chat-template"}},
               template_flag(o.chat_template)});
  command.add(o.variables.flags());
  command.add({
      {"--show-thinking", "",
       "show what the model thinks before it answers (default on a terminal). Thinking is not sent "
       "back to the model later, unless its chat template wants it",
       into::flag(o.show_thinking)},
      {"--hide-thinking",
       "",
       "show only the answers (default in a pipe)",
       into::flag(o.hide_thinking),
       {.excludes = "--show-thinking"}},
      show_prompt_flag(o.show_prompt),
      session_flag(
          o.session_file,
          "continue the conversation in this file, if it exists, and save it there at the end"),
  });
  command.add(model_flags(o.model));
  command.add(
      {{"--context-shift", "", "when the context is full, forget the oldest part and continue",
        into::flag(o.model.session.context_shift)}});
  command.add(o.sampling.flags());
  command.add(o.sampling.constraint_flags());
  command.add(speculation_flags(o.model, o.sampling.generate));
  command.notes =
      "On a terminal: line editing and history; /help lists the commands; Ctrl-C stops an answer.\n"
      "From a pipe: each line is a message, and each answer ends with a newline. When the context "
      "is full, "
      "the oldest part of the conversation is forgotten. Commands (/help), exit, quit and \"\"\" "
      "work as on "
      "a terminal.\n\n"
      "Examples:\n"
      "  cria chat\n"
      "  cria chat -m model.gguf -s \"You are a kind teacher.\" --temp 0\n"
      "  cria chat -m model.gguf \"Who are you?\"\n"
      "  cria chat < questions.txt";
  command.run = [options] { return run(*options); };
}

}  // namespace cria::tools
