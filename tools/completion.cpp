// `cria completion`: scripts that complete the command line, from its own declarations.
#include <algorithm>

#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/common.h"

namespace cria::tools {
namespace {

using Commands = std::vector<CommandDescription>;

std::string command_names(const Commands& commands) {
  std::vector<std::string> names;
  for (const CommandDescription& command : commands) names.push_back(command.name);
  return CLI::detail::join(names, " ");
}

/// 'text' as one word of a shell; how a quote inside is written differs.
std::string quote(std::string text, std::string_view quote_inside) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += quote_inside.size())
    text.replace(at, 1, quote_inside);
  return "'" + text + "'";
}

bool names_file(const OptionDescription& option) { return option.value == "FILE"; }

/// A branch of `case $previous in`: what may follow these options.
std::string bash_values(const std::vector<std::string>& names, const std::string& action) {
  if (names.empty()) return "";
  return "        " + CLI::detail::join(names, "|") + ") " + action + "return ;;\n";
}

std::string bash_command(const CommandDescription& command) {
  std::vector<std::string> words, with_file, with_value;
  std::string choices;
  bool file_wanted = false;
  const auto offer = [](const std::string& what) {
    return "COMPREPLY=($(compgen " + what + " -- \"$current\"))";
  };
  const auto offer_words = [&](const std::vector<std::string>& list) {
    return offer("-W '" + CLI::detail::join(list, " ") + "'");
  };
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (const OptionDescription& option : command.options) {
    append(words, option.names.empty() ? option.choices : option.names);
    if (option.names.empty())
      file_wanted = file_wanted || names_file(option);
    else if (names_file(option))
      append(with_file, option.names);
    else if (!option.choices.empty())
      choices += bash_values(option.names, offer_words(option.choices) + "; ");
    else if (!option.value.empty())
      append(with_value, option.names);
  }
  return "    " + command.name + ")\n      case $previous in\n" + bash_values(with_file, offer("-f") + "; ") +
         choices + bash_values(with_value, "") + "      esac\n      " + offer_words(words) +
         (file_wanted ? "\n      COMPREPLY+=($(compgen -f -- \"$current\"))" : "") + "\n      ;;\n";
}

std::string bash(const Commands& commands) {
  std::string text =
      "# cria completion for bash: source <(cria completion bash)\n"
      "_cria() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '" +
      command_names(commands) +
      " --help --version' -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const CommandDescription& command : commands) text += bash_command(command);
  return text + "  esac\n}\ncomplete -o filenames -F _cria cria\n";
}

std::string zsh_option(const OptionDescription& option) {
  std::string help = option.help;
  for (const char special : {'\\', '[', ']', ':'})
    for (std::size_t at = 0; (at = help.find(special, at)) != std::string::npos; at += 2)
      help.insert(at, 1, '\\');
  const std::string value = option.value.empty() ? ""
                            : names_file(option) ? ":file:_files"
                            : option.choices.empty()
                                ? ":value: "
                                : ":value:(" + CLI::detail::join(option.choices, " ") + ")";
  const auto line = [](const std::string& spec) { return "        " + quote(spec, "'\\''") + " \\\n"; };
  if (option.names.empty()) return line("*" + value);
  const std::string rest = "[" + help + "]" + value;
  std::string text;
  for (const std::string& name : option.names) text += line(std::string("*").append(name).append(rest));
  return text;
}

std::string zsh(const Commands& commands) {
  std::string text =
      "#compdef cria\n"
      "# cria completion for zsh: put this into a file _cria of $fpath\n"
      "_cria() {\n"
      "  if (( CURRENT == 2 )); then\n    local -a commands=(\n";
  for (const CommandDescription& command : commands)
    text += "      " + quote(command.name + ":" + command.help, "'\\''") + "\n";
  text +=
      "    )\n    _describe command commands\n    return\n  fi\n  local command=$words[2]\n  shift words\n  "
      "(( CURRENT-- ))\n  case $command in\n";
  for (const CommandDescription& command : commands) {
    text += "    " + command.name + ")\n      _arguments \\\n";
    for (const OptionDescription& option : command.options) text += zsh_option(option);
    text += "        && return\n      ;;\n";
  }
  return text + "  esac\n}\n_cria \"$@\"\n";
}

std::string fish_option(const CommandDescription& command, const OptionDescription& option) {
  if (option.names.empty() && option.choices.empty() && !names_file(option)) return "";
  std::string text = "complete -c cria -n '__fish_seen_subcommand_from " + command.name + "'";
  for (const std::string& name : option.names)
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (names_file(option))
    text += option.names.empty() ? " -F" : " -r -F";
  else if (!option.choices.empty())
    text += " -x -a " + quote(CLI::detail::join(option.choices, " "), "\\'");
  else if (!option.value.empty())
    text += " -x";
  return text + " -d " + quote(option.help, "\\'") + "\n";
}

std::string fish(const Commands& commands) {
  std::string text = "# cria completion for fish: cria completion fish | source\ncomplete -c cria -f\n";
  for (const CommandDescription& command : commands) {
    text += "complete -c cria -n __fish_use_subcommand -a " + command.name + " -d " +
            quote(command.help, "\\'") + "\n";
    for (const OptionDescription& option : command.options) text += fish_option(command, option);
  }
  return text;
}

}  // namespace

void add_completion(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("completion", "Print a script that completes the command line of a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer("Example:\n  source <(cria completion bash)");
  on_run(command, [shell, &app] {
    const Commands commands = describe_commands(app);
    write_stdout(*shell == "bash" ? bash(commands) : *shell == "zsh" ? zsh(commands) : fish(commands));
    flush_stdout();
    return 0;
  });
}

}  // namespace cria::tools
