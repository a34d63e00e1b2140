// `cria completion`: scripts that complete the command line, from its own declarations.
#include <algorithm>
#include <initializer_list>

#include "tools/cli/settings.h"
#include "tools/commands/commands.h"
#include "tools/options/conversation.h"
#include "tools/options/values.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

using Commands = std::deque<Command>;

Words names_of(const Commands& commands) {
  Words names;
  for (const Command& command : commands) names.push_back(command.name);
  return names;
}

/// 'text' as one word of a shell; how a quote inside is written differs.
std::string quote(std::string text, std::string_view quote_inside) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos;
       at += quote_inside.size())
    text.replace(at, 1, quote_inside);
  return "'" + text + "'";
}

/// The candidates for a flag's value: words, and files of a kind.
struct ValueKind {
  enum class Files { None, Any, Models, Directories } files = Files::None;
  std::vector<std::string> words = {};
};

ValueKind value_kind(const Command& command, const Flag& option, const Commands& commands) {
  using Files = ValueKind::Files;
  const auto named = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(
        names, [&](std::string_view name) { return option.all_names().back() == name; });
  };
  if (!option.target.choices.empty()) return {Files::None, option.target.choices};
  if (named({"--types"}) || (command.name == "quantize" && named({"TYPE"})))
    return {Files::None, mix_names()};
  if (named({"--output-type", "--token-embedding-type", "TYPE"}))
    return {Files::None, weight_type_names()};
  if (named({"--preset"})) return {Files::None, builtin_preset_names()};
  if (named({"COMMAND"})) return {Files::None, names_of(commands)};
  if (named({"--chat-template"}) || (command.name == "template" && named({"--template"})))
    return {Files::Any, builtin_template_names()};
  if (named({"--model", "--base", "--diff", "--lora", "IN", "OUT", "FIRST", "files", "BASE"}) ||
      named({"FILE"}))
    return {Files::Models};
  if (named({"DIR"}) || option.value_name() == "DIR") return {Files::Directories};
  return {option.value_name() == "FILE" || option.value_name() == "PREFIX" ? Files::Any
                                                                           : Files::None};
}

/// Commands that print what may stand there, a candidate a line.
std::string bash_candidates(const ValueKind& kind) {
  std::vector<std::string> commands;
  if (!kind.words.empty())
    commands.push_back("compgen -W '" + joined(kind.words, " ") + "' -- \"$current\"");
  if (kind.files == ValueKind::Files::Any) commands.emplace_back("compgen -f -- \"$current\"");
  if (kind.files == ValueKind::Files::Models)
    commands.emplace_back("compgen -f -X '!*.gguf' -- \"$current\"; compgen -d -- \"$current\"");
  if (kind.files == ValueKind::Files::Directories)
    commands.emplace_back("compgen -d -- \"$current\"");
  return joined(commands, "; ");
}

/// A branch of `case`: what may follow this option, or stand in its place.
std::string bash_branch(const Flag& option, const std::string& candidates) {
  return "        " + joined(option.all_names(), "|") + ") " +
         (candidates.empty() ? "" : "mapfile -t COMPREPLY < <(" + candidates + "); ") +
         "return ;;\n";
}

std::string bash_command(const Command& command, const Commands& commands) {
  std::vector<std::string> words;
  std::string branches, positionals;
  for (const Flag& option : command.flags) {
    const std::string candidates = bash_candidates(value_kind(command, option, commands));
    if (option.is_argument()) {
      positionals += candidates.empty() ? "" : "; " + candidates;
      continue;
    }
    std::ranges::copy(option.all_names(), std::back_inserter(words));
    if (!option.is_switch()) branches += bash_branch(option, candidates);
  }
  return "    " + command.name + ")\n      case $previous in\n" + branches + "      esac\n" +
         "      mapfile -t COMPREPLY < <(" + bash_candidates({ValueKind::Files::None, words}) +
         positionals + ")\n      ;;\n";
}

std::string bash(const Commands& commands) {
  std::string text =
      "# cria completion for bash: source <(cria completion bash)\n"
      "_cria() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  current=${current//\\\\/}\n"  // as typed it has a backslash before each blank
      "  current=${current#[\\\"\\']}\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W '" +
      joined(names_of(commands), " ") +
      " --help --version' -- \"$current\")\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const Command& command : commands) text += bash_command(command, commands);
  return text + "  esac\n}\ncomplete -o filenames -F _cria cria\n";
}

/// ":message:action" of _arguments.
std::string zsh_value(const ValueKind& kind) {
  const std::string words = joined(kind.words, " ");
  switch (kind.files) {
    case ValueKind::Files::None:
      return kind.words.empty() ? ":value: " : ":value:(" + words + ")";
    case ValueKind::Files::Any:
      return kind.words.empty() ? ":file:_files" : ":file:{compadd " + words + "; _files}";
    case ValueKind::Files::Models:
      return ":model:_files -g \"*.gguf\"";
    case ValueKind::Files::Directories:
      return ":directory:_files -/";
  }
  return "";
}

/// place: of a positional among its kind, from 1.
std::string zsh_option(const Flag& option, const ValueKind& kind, std::size_t place) {
  std::string help = option.help;
  for (const char special : {'\\', '[', ']', ':'})
    for (std::size_t at = 0; (at = help.find(special, at)) != std::string::npos; at += 2)
      help.insert(at, 1, '\\');
  const std::string value = option.is_switch() ? "" : zsh_value(kind);
  const auto line = [](const std::string& spec) {
    return "        " + quote(spec, "'\\''") + " \\\n";
  };
  if (option.is_argument()) return line((option.is_list() ? "*" : std::to_string(place)) + value);
  const std::string rest = "[" + help + "]" + value;
  std::string text;
  for (const std::string& name : option.all_names())
    text += line(std::string("*").append(name).append(rest));
  return text;
}

std::string zsh(const Commands& commands) {
  std::string text =
      "#compdef cria\n"
      "# cria completion for zsh: source <(cria completion zsh), or a file _cria of $fpath\n"
      "_cria() {\n"
      "  if (( CURRENT == 2 )); then\n    local -a commands=(\n";
  for (const Command& command : commands)
    text += "      " + quote(command.name + ":" + command.summary, "'\\''") + "\n";
  text +=
      "    )\n    _describe command commands\n    return\n  fi\n  local command=$words[2]\n  shift "
      "words\n  "
      "(( CURRENT-- ))\n  case $command in\n";
  for (const Command& command : commands) {
    text += "    " + command.name + ")\n      _arguments \\\n";
    std::size_t positionals = 0;
    for (const Flag& option : command.flags) {
      if (option.is_argument()) ++positionals;
      text += zsh_option(option, value_kind(command, option, commands), positionals);
    }
    text += "        && return\n      ;;\n";
  }
  // A file of $fpath is the function's body when it is called first; a script that is sourced is
  // not.
  return text +
         "  esac\n}\nif [[ $funcstack[1] = _cria ]]; then\n  _cria \"$@\"\nelse\n"
         "  (( $+functions[compdef] )) || { autoload -U compinit && compinit }\n  compdef _cria "
         "cria\nfi\n";
}

std::string fish_value(const ValueKind& kind) {
  const std::string words =
      kind.words.empty() ? "" : " -a " + quote(joined(kind.words, " "), "\\'");
  switch (kind.files) {
    case ValueKind::Files::None:
      return " -x" + words;
    case ValueKind::Files::Any:
      return " -r -F" + words;
    case ValueKind::Files::Models:
      return " -x -a '(__fish_complete_suffix .gguf)'";
    case ValueKind::Files::Directories:
      return " -x -a '(__fish_complete_directories)'";
  }
  return "";
}

std::string fish_option(const Command& command, const Flag& option, const ValueKind& kind) {
  const bool has_values = kind.files != ValueKind::Files::None || !kind.words.empty();
  if (option.is_argument() && !has_values) return "";
  std::string text = "complete -c cria -n '__fish_seen_subcommand_from " + command.name + "'";
  for (const std::string& name : option.all_names())
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!option.is_switch()) text += fish_value(kind);
  return text + " -d " + quote(option.help, "\\'") + "\n";
}

std::string fish(const Commands& commands) {
  std::string text =
      "# cria completion for fish: cria completion fish | source\ncomplete -c cria -f\n";
  for (const Command& command : commands) {
    text += "complete -c cria -n __fish_use_subcommand -a " + command.name + " -d " +
            quote(command.summary, "\\'") + "\n";
    for (const Flag& option : command.flags)
      text += fish_option(command, option, value_kind(command, option, commands));
  }
  return text;
}

}  // namespace

void add_completion(Program& program) {
  Command& command = program.add("completion", "Print a completion script for a shell");
  auto shell = std::make_shared<std::string>();
  command.add({{"SHELL",
                "",
                "bash, zsh or fish",
                into::choice(*shell, {"bash", "zsh", "fish"}),
                {.required = true}}});
  command.notes =
      "Examples:\n  source <(cria completion bash)\n  source <(cria completion zsh)\n"
      "  cria completion fish | source";
  command.run = [shell, &program] {
    const Commands& commands = program.commands;
    write_stdout(*shell == "bash"  ? bash(commands)
                 : *shell == "zsh" ? zsh(commands)
                                   : fish(commands));
    return 0;
  };
}

}  // namespace cria::tools
