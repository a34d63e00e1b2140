// `cria chat`: a conversation in the terminal, or line by line from a pipe.
#include <algorithm>
#include <iostream>

#include "tools/chat_session.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/line_reader.h"
#include "tools/template_options.h"
#include "tools/terminal.h"

namespace cria::tools {
namespace {

/// A command of the chat: "/save FILE". Returns false to end the chat.
struct ChatCommand {
  std::string_view name, argument, help;
  bool (*run)(ChatSession& chat, const std::string& argument);
};

void say(const std::string& text) { std::cerr << styled(stderr, Style::Dim, text) << '\n'; }

bool show_help(ChatSession& chat, const std::string& argument);

constexpr ChatCommand kChatCommands[] = {
    {"/help", "", "this list", show_help},
    {"/reset", "", "forget the conversation; the system message stays",
     [](ChatSession& chat, const std::string&) {
       chat.reset();
       say("forgotten");
       return true;
     }},
    {"/system", "TEXT", "set the system message (none: remove it)",
     [](ChatSession& chat, const std::string& text) {
       chat.set_system(text);
       say(text.empty() ? "no system message" : "system message set");
       return true;
     }},
    {"/save", "FILE", "write the conversation as JSON",
     [](ChatSession& chat, const std::string& file) {
       chat.save(file);
       say("saved " + file);
       return true;
     }},
    {"/load", "FILE", "go on with a conversation: JSON messages as OpenAI has them",
     [](ChatSession& chat, const std::string& file) {
       chat.load(file);
       say("loaded " + file + ": " + std::to_string(chat.messages().size()) + " messages");
       return true;
     }},
    {"/stats", "", "speed of the last answer, context in use",
     [](ChatSession& chat, const std::string&) {
       say(chat.stats());
       return true;
     }},
    {"/exit", "", "end (as does Ctrl-D)", [](ChatSession&, const std::string&) { return false; }},
};

bool show_help(ChatSession&, const std::string&) {
  std::string text;
  for (const ChatCommand& command : kChatCommands) {
    std::string usage = std::string(command.name) + " " + std::string(command.argument);
    usage.resize(14, ' ');
    text += usage + std::string(command.help) + "\n";
  }
  say(text +
      "A line that ends in \\ goes on in the next; \"\"\" begins and ends a text of several lines.\n"
      "Ctrl-C stops an answer.");
  return true;
}

bool run_command(ChatSession& chat, const std::string& line) {
  const std::size_t space = line.find(' ');
  const std::string word = line.substr(0, space);
  const std::string argument =
      space == std::string::npos ? "" : line.substr(line.find_first_not_of(' ', space));
  const auto* const found = std::find_if(std::begin(kChatCommands), std::end(kChatCommands),
                                         [&](const ChatCommand& c) { return c.name == word; });
  if (found == std::end(kChatCommands)) throw Error("", "unknown command " + word + " (/help lists them)");
  if (argument.empty() && found->argument == "FILE") throw Error("", word + ": expected the name of a file");
  return found->run(chat, argument);
}

/// The dialogue: reads, obeys or answers, until the end. Returns the exit code.
class Dialogue {
 public:
  Dialogue(ChatSession& chat, bool interactive, bool verbose)
      : chat_(chat), interactive_(interactive), verbose_(verbose), reader_(LineReader::create(interactive)) {}

  int run() {
    std::string message;
    for (;;) {
      const Read read = read_message(*reader_, message);
      if (read == Read::End) return end();
      if (read == Read::Interrupt) {
        if (!interactive_ || idle_interrupt_ || terminated()) return interrupted_exit();
        idle_interrupt_ = true;
        interrupted_ = false;
        say("Ctrl-C again or Ctrl-D ends the chat");
        continue;
      }
      idle_interrupt_ = false;
      if (message.find_first_not_of(" \t\n") == std::string::npos) continue;
      if (!handle(message)) return code_;
    }
  }

 private:
  int end() const {
    if (interactive_) write_stdout("\n");
    return code_;
  }

  /// False: the chat ends.
  bool handle(const std::string& message) {
    try {
      if (message.front() == '/') return run_command(chat_, message);
      return answer(message);
    } catch (const OutputError&) {
      throw;  // nobody could see an answer
    } catch (const Error& error) {
      std::cerr << "cria: error: " << error.what() << '\n';
      if (!interactive_) code_ = 1;
      return true;
    }
  }

  bool answer(const std::string& message) {
    const GenerateResult result = chat_.answer(message, [&](std::string_view piece) {
      say_note(chat_.note());
      write_stdout(interactive_ ? without_controls(piece) : std::string(piece));
      flush_stdout();
      return true;
    });
    say_note(chat_.note());
    write_stdout("\n");
    flush_stdout();
    if (verbose_) say(speed_line(result));
    if (result.reason == StopReason::ContextFull) say(chat_.full_text());
    if (result.reason != StopReason::Interrupted) return true;
    if (interactive_ && !terminated()) return !(interrupted_ = false);
    code_ = interrupted_exit();
    return false;
  }

  ChatSession& chat_;
  bool interactive_, verbose_, idle_interrupt_ = false;
  std::atomic<bool>& interrupted_ = catch_interrupts();
  std::unique_ptr<LineReader> reader_;
  int code_ = 0;
};

/// The text as the model gets it, then its ids.
void show_prompt(const std::string& text, std::span<const TokenId> tokens) {
  std::string ids;
  for (const TokenId token : tokens) ids += (ids.empty() ? "" : " ") + std::to_string(token);
  say("prompt of " + std::to_string(tokens.size()) + " tokens:");
  std::cerr << (is_terminal(stderr) ? without_controls(text) : text);
  std::cerr << (text.ends_with('\n') ? "" : "\n");
  say("ids: " + ids);
}

int run(const ChatOptions& options) {
  std::atomic<bool>& interrupted = catch_interrupts();
  const bool interactive = is_terminal(stdin) && is_terminal(stdout);
  GenerateOptions generate = options.sampling.resolve();
  generate.interrupt = &interrupted;
  const auto model = load_model(options.model);
  const auto session = open_session(*model, options.model);
  ChatSession chat(*model, *session, options, generate, !interactive);
  if (options.show_prompt) chat.observe_prompts(show_prompt);
  if (has_session_file(options.session_file)) chat.resume(options.session_file);
  if (interactive) {
    say(chat.greeting());
    say_note(chat.note());
  }
  const int code = Dialogue(chat, interactive, options.model.verbose).run();
  if (!options.session_file.empty()) chat.keep(options.session_file);
  print_profile(*session, options.model);
  return code;
}

}  // namespace

void add_chat(CLI::App& app) {
  CLI::App* command = app.add_subcommand("chat", "Talk with a model");
  auto options = std::make_shared<ChatOptions>();
  command->add_option("-s,--system", options->system, "system message")->type_name("TEXT");
  command->add_flag("--no-template", options->no_template,
                    "plain text instead of the model's chat template: it goes on where you end");
  add_template_option(*command, options->chat_template);
  command->add_flag("--show-prompt", options->show_prompt,
                    "the exact text and ids of every prompt on stderr");
  add_session_option(
      *command, options->session_file,
      "go on with the conversation in this file, if it is there, and keep it there at the end");
  add_model_options(*command, options->model);
  command->add_flag("--context-shift", options->model.session.context_shift,
                    "when the context is full, forget the oldest part and go on");
  options->sampling.add_to(*command);
  command->footer(
      "On a terminal: line editing and history, /help lists the commands, Ctrl-C stops an answer.\n"
      "From a pipe: each line is a message, each answer ends with a newline; when the context is full the "
      "oldest\n"
      "part of the conversation is forgotten.\n"
      "Examples:\n"
      "  cria chat\n"
      "  cria chat -m model.gguf -s \"You are a kind teacher.\" --temp 0\n"
      "  cria chat < questions.txt");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
