#include "tools/commands/chat_session.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "model/plural.h"
#include "tokenizer/chat/partial_marker.h"
#include "tools/cli/command_line.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/wrap.h"

namespace cria::tools {
namespace {

namespace fs = std::filesystem;

struct ChatCommand {
  std::string_view name, argument, help;
  void (*run)(ChatState& state, const std::string& argument);
};

std::string trimmed(std::string_view text) { return std::string(without_spaces(text)); }

std::string first_word(const std::string& text) {
  return text.substr(0, text.find_first_of(kTextSpace));
}

/// "~/talk.json" as shells understand it.
std::string with_home(const std::string& path) {
  const char* const home = std::getenv("HOME");
  const bool named = path == "~" || path.starts_with("~/");
  return named && home != nullptr ? home + path.substr(1) : path;
}

/// True if the user agrees. A pipe cannot be asked: scripts always agree.
bool confirmed(ChatState& state, const std::string& question) {
  if (!state.interactive) return true;
  TypedText reply;
  if (state.reader.line(without_controls(question) + " [y/N]", reply) != Read::Line) return false;
  return reply.text.starts_with('y') || reply.text.starts_with('Y');
}

void save(ChatState& state, const std::string& name) {
  if (name == "-") throw Error("/save", "expected a file's name, got -");
  const std::string file = with_home(name);
  std::error_code error;
  const bool exists = fs::is_regular_file(file, error);
  if (exists && !confirmed(state, file + " already exists. Overwrite it?")) return say("not saved");
  state.chat.save(file);
  say("saved " + file +
      (exists && !state.interactive ? ", replacing the file that was there" : ""));
}

void load(ChatState& state, const std::string& name) {
  const std::string file = with_home(name);
  const std::vector<std::string> notes = state.chat.load(file);
  say("loaded " + file + ": " + counted(state.chat.messages().size(), "message"));
  for (const std::string& note : notes) say(note);
}

void undo(ChatState& state, const std::string&) {
  const std::string message = trimmed(state.chat.undo());
  constexpr std::size_t kShown = 60;  // columns
  const std::string begin = message.substr(0, message.find('\n'));
  say("removed: " + shortened(without_controls(begin), kShown));
}

void reset(ChatState& state, const std::string&) {
  state.chat.reset();
  say("forgotten");
}

void retry(ChatState& state, const std::string&) {
  state.answer = state.chat.retry(state.sink);
  state.answered = true;
}

void compact(ChatState& state, const std::string&) {
  const std::size_t dropped = state.chat.compact();
  say((dropped == 0 ? "nothing to forget: half of the context is free"
                    : "forgot the oldest " + counted(dropped, "message")) +
      "; context: " + state.chat.context_text());
}

/// The texts, each in quotes.
std::string quoted(const std::vector<std::string>& texts) {
  std::string all = json_line(texts);
  return all.substr(1, all.size() - 3);  // without brackets and newline
}

/// The value of an option that is not a number, if it differs from the default; else "".
std::string other_value(const std::string& name, const SamplingOptions& sampling) {
  const SamplerOptions usual, &sampler = sampling.generate.sampler;
  if (name == "seed" && sampler.seed) return std::to_string(*sampler.seed);
  if (name == "stop") return quoted(sampling.generate.stop);
  if (name == "ignore-eos" && sampling.generate.ignore_eos) return "on";
  if (name == "samplers" && sampler.steps != usual.steps) return sampler_steps_text(sampler.steps);
  if (name == "dry-sequence-breaker" &&
      sampler.dry_sequence_breakers != usual.dry_sequence_breakers)
    return quoted(sampler.dry_sequence_breakers);
  if (name == "logit-bias") return joined(sampling.biases, " ");
  return "";
}

Words option_names() {
  SamplingOptions any;
  Words names;
  for (const Flag& flag : any.flags()) names.push_back(flag.setting_name());
  return names;
}

std::string sampling_text(SamplingOptions& sampling) {
  std::string text;
  for (const Flag& flag : sampling.flags()) {
    std::string value = flag.target.default_text;  // the present value of a number
    if (value.empty()) value = other_value(flag.setting_name(), sampling);
    if (value.empty()) continue;
    std::string line = flag.setting_name();
    line.resize(std::max<std::size_t>(line.size() + 1, 20), ' ');
    text += (text.empty() ? "" : "\n") + line + value;
  }
  return text;
}

/// Settings of ollama and options of the command line, and how they are set here.
constexpr std::pair<std::string_view, std::string_view> kForeignSettings[] = {
    {"think,nothink", "cria chat --think and --no-think set it"},
    {"verbose,quiet", "/stats shows the speed; cria chat -v does so after each answer"},
    {"history,nohistory", "on a terminal, typed lines are always kept"},
    {"wordwrap,nowordwrap", "answers always fit a terminal's width; a pipe gets whole lines"},
    {"ctx,ctx-size,num-ctx,threads,num-thread,model",
     "cria chat -c N, -t N and -m FILE set it at the start"},
};

/// The option of a name as it is typed: "temp", "--top_k", "temperature".
Flag& named_option(Command& command, std::string name) {
  name.erase(0, std::min(name.find_first_not_of('-'), name.size()));
  std::ranges::replace(name, '_', '-');
  if (name == "n" || name == "num-predict") name = "max-tokens";
  Flag* flag = command.find("--" + name);
  const ForeignName* const foreign = find_foreign_name("--" + name, "chat");
  if (flag == nullptr && foreign != nullptr) flag = command.find(foreign->ours);
  if (flag != nullptr) return *flag;
  if (name == "system") throw Error("", "/set: /system TEXT sets the system message");
  for (const auto& [names, hint] : kForeignSettings)
    if (const Words all = parts_of(names); std::ranges::find(all, name) != all.end())
      throw Error("", "/set: " + name + " does not apply: " + std::string(hint));
  if (foreign != nullptr && !foreign->why.empty())
    throw Error("", "/set: " + name + " does not apply: " + std::string(foreign->why));
  throw Error("", "/set: unknown option " + name + suggestion(name, option_names()) +
                      " (/set alone shows them)");
}

/// "END" in quotes without them, as the list of options shows texts.
std::string unquoted(const std::string& text) {
  if (text.size() < 2 || !text.starts_with('"') || !text.ends_with('"')) return text;
  const auto json = try_json(text);
  return json.is_string() ? json.get<std::string>() : text;
}

/// Takes the first option off the text and gives it its value: a word, or all that is left if the
/// value is a text. Returns "temp set to 0.2".
std::string take_option(Command& command, std::string& text) {
  const std::string typed = text.substr(0, text.find_first_of(" \t="));
  Flag& flag = named_option(command, typed);
  text = trimmed(std::string_view(text).substr(std::min(typed.size() + 1, text.size())));
  std::string value = flag.is_number() || flag.is_switch() ? first_word(text) : text;
  if (flag.is_switch() && !switch_value(value)) value.clear();
  text = trimmed(std::string_view(text).substr(value.size()));
  if (value.empty() && !flag.is_switch()) throw UsageError(flag.shown_name(), "needs a value");
  if (flag.is_number() && value.ends_with(',')) value.pop_back();
  value = unquoted(value);
  flag.give(value.empty() ? "true" : value);
  return flag.setting_name() + (value.empty() ? " set" : " set to " + value);
}

/// "temp 0.2 top-k 40", "--temp=0.2", or nothing: shows all.
void set_option(ChatState& state, std::string text) {
  if (text.empty()) return say(sampling_text(state.sampling));
  constexpr std::string_view kParameter = "parameter ";  // as ollama's /set has it
  if (text.starts_with(kParameter)) text.erase(0, kParameter.size());
  SamplingOptions changed = state.sampling;
  Command command;
  command.add(changed.flags());
  std::string done;
  try {
    while (!text.empty()) done += (done.empty() ? "" : ", ") + take_option(command, text);
    set_values(command);
  } catch (const UsageError& error) {
    throw Error("", std::string("/set: ") + error.what());
  }
  state.chat.generate_with(changed.resolve());
  state.sampling = changed;
  say(done);
}

void show_help(ChatState& state, const std::string& argument);

void end(ChatState& state, const std::string&) { state.ended = true; }

constexpr ChatCommand kChatCommands[] = {
    {"/help", "", "show this list", show_help},
    {"/retry", "", "answer the last message again, differently", retry},
    {"/undo", "", "remove the last message and its answer", undo},
    {"/reset", "", "forget the conversation; the system message stays", reset},
    {"/compact", "", "forget the oldest messages until half of the context is free", compact},
    {"/shift", "", "from now on, forget the oldest messages when the context is full",
     [](ChatState& state, const std::string&) {
       state.chat.forget_when_full();
       say("the oldest messages are forgotten when the context is full");
     }},
    {"/system", "TEXT", "set the system message (without TEXT: remove it)",
     [](ChatState& state, const std::string& text) {
       const bool had = state.chat.has_system();
       state.chat.set_system(text);
       say(!text.empty() ? "system message set"
           : had         ? "system message removed"
                         : "no system message");
     }},
    {"/set", "NAME VALUE", "change sampling options (/set temp 0.2 top-k 40); alone: show them",
     [](ChatState& state, const std::string& text) { set_option(state, text); }},
    {"/save", "FILE", "write the conversation as JSON", save},
    {"/load", "FILE", "continue a conversation: messages as JSON in OpenAI's form", load},
    {"/stats", "", "show the speed of the last answer and the context in use",
     [](ChatState& state, const std::string&) { say(state.chat.stats()); }},
    {"/exit", "", "end (as do /quit, exit, quit and Ctrl-D)", end},
    // Names that ollama and llama.cpp use
    {"/quit", "", "", end},
    {"/bye", "", "", end},
    {"/?", "", "", show_help},
    {"/clear", "", "", reset},
    {"/new", "", "", reset},
    {"/regen", "", "", retry},
    {"/regenerate", "", "", retry},
};

/// Commands of other programs.
constexpr std::pair<std::string_view, std::string_view> kForeignCommands[] = {
    {"/model", "cria chat -m FILE talks to another model"},
    {"/show", "cria inspect shows a model"},
    {"/read", "paste the text, or begin and end it with \"\"\""},
    {"/glob", "paste the text, or begin and end it with \"\"\""},
    {"/image", "cria reads text only"},
    {"/audio", "cria reads text only"},
};

constexpr std::string_view kEndWords[] = {"exit", "quit"};

void show_help(ChatState&, const std::string&) {
  constexpr std::size_t kHelpColumn = 17;
  for (const ChatCommand& command : kChatCommands) {
    if (command.help.empty()) continue;
    std::string usage = std::string(command.name) + " " + std::string(command.argument);
    usage.resize(kHelpColumn, ' ');
    say(usage + std::string(command.help), kHelpColumn);
  }
  say("A line that ends in \\ continues in the next; \"\"\" begins and ends a text of several "
      "lines. Pasted "
      "text is never a command.\n"
      "Ctrl-C stops an answer or clears the line, Ctrl-G opens the line in $EDITOR, Tab completes "
      "commands, "
      "the up arrow brings back earlier messages.");
}

std::vector<std::string> files_that_begin(const std::string& typed) {
  const fs::path wanted = with_home(typed);
  const fs::path directory = wanted.has_parent_path() ? wanted.parent_path() : fs::path(".");
  const std::string begin = wanted.filename().string();
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), none; !error && entry != none;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin) || (begin.empty() && name.starts_with('.'))) continue;
    names.push_back(typed.substr(0, typed.size() - begin.size()) + name +
                    (entry->is_directory(error) ? "/" : ""));
  }
  return names;
}

}  // namespace

void say(const std::string& text, std::size_t indent) {
  WordWrap wrap([] { return terminal_columns(stderr); }, indent);
  std::string lines = wrap.push(for_stream(stderr, text));
  lines += wrap.finish();
  std::cerr << styled(stderr, Style::Dim, lines) << '\n';
}

bool is_command(const TypedText& typed) {
  if (typed.literal) return false;
  if (std::ranges::count(kEndWords, trimmed(typed.text)) != 0) return true;
  const std::string word = first_word(typed.text);
  if (word == "/?") return true;
  return word.size() > 1 && word.front() == '/' &&
         std::all_of(word.begin() + 1, word.end(),
                     [](unsigned char c) { return std::isalpha(c) != 0; });
}

void run_command(ChatState& state, const std::string& line) {
  if (std::ranges::count(kEndWords, trimmed(line)) != 0) return end(state, "");
  const std::string word = first_word(line);
  const std::string argument = trimmed(line.substr(word.size()));
  const auto* const found = std::find_if(std::begin(kChatCommands), std::end(kChatCommands),
                                         [&](const ChatCommand& c) { return c.name == word; });
  if (found == std::end(kChatCommands)) {
    for (const auto& [name, hint] : kForeignCommands)
      if (name == word) throw Error("", word + " does not apply: " + std::string(hint));
    std::vector<std::string> names;
    for (const ChatCommand& command : kChatCommands) names.emplace_back(command.name);
    throw Error("", "unknown command " + word + suggestion(word, names) + " (/help lists them)");
  }
  if (argument.empty() && found->argument == "FILE")
    throw Error("", word + ": expected the name of a file");
  const bool ignores = found->run == show_help || found->run == end;
  if (!argument.empty() && found->argument.empty() && !ignores)
    throw Error("", word + ": expected nothing behind it, got " + argument);
  found->run(state, argument);
}

std::vector<std::string> complete_command(const std::string& line) {
  std::vector<std::string> known;
  const std::size_t blank = line.find(' ');
  if (blank == std::string::npos) {
    for (const ChatCommand& command : kChatCommands)
      known.push_back(std::string(command.name) + (command.argument.empty() ? "" : " "));
  } else {
    const std::string word = line.substr(0, blank), before = word + " ";
    const std::string typed = line.substr(before.size());
    if (word == "/set") known = option_names();
    if (word == "/save" || word == "/load") known = files_that_begin(typed);
    for (std::string& text : known) text.insert(0, before);
  }
  std::erase_if(known,
                [&](const std::string& text) { return line.empty() || !text.starts_with(line); });
  std::sort(known.begin(), known.end());
  return known;
}

}  // namespace cria::tools
