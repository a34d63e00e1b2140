#include "tools/options/arguments.h"

#include <algorithm>

#include "tools/options/command_line.h"
#include "tools/options/help.h"
#include "tools/options/llama_cpp_options.h"
#include "tools/options/nearest.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

CLI::ValidationError wrong(const std::string& message) { return CLI::ValidationError(message); }

/// "--temp=0" is "--temp".
std::string name_of(const std::string& word) { return word.substr(0, word.find('=')); }

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') && word[1] != '.';
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// The words of one subcommand, from left to right.
class Reader {
 public:
  Reader(CLI::App& command, const std::vector<std::string>& typed, std::size_t at, Arguments& out)
      : command_(command), typed_(typed), at_(at), out_(out) {}

  void read() {
    for (; at_ < typed_.size(); ++at_) {
      const std::string& word = typed_[at_];
      if (word == "--") {
        if (at_ + 1 < typed_.size()) give_positionals();
        out_.words.insert(out_.words.end(), typed_.begin() + static_cast<std::ptrdiff_t>(at_),
                          typed_.end());
        return;
      }
      if (is_option(word))
        read_option(word);
      else
        give_positionals(), out_.words.push_back(word);
    }
  }

 private:
  /// Positionals share their words in ways that only CLI11 knows: one given, all given.
  void give_positionals() {
    for (const CLI::Option* option : command_.get_options())
      if (option->get_positional()) out_.given.insert(option);
  }

  void read_option(const std::string& word) {
    const std::string name = name_of(word);
    const bool is_long = word.starts_with("--");
    const CLI::Option* option =
        is_long || name.size() == 2 ? command_.get_option_no_throw(name) : nullptr;
    if (option != nullptr)
      return take(*option, word, is_long ? word.size() > name.size() : word.size() > 2);
    if (const ForeignName* const foreign = find_foreign_name(name, command_.get_name());
        foreign != nullptr) {
      if (read_foreign(*foreign, word, word.size() > name.size() ? word.substr(name.size()) : ""))
        return;
    }
    if (is_long) {
      if (std::string hyphens = name; std::ranges::replace(hyphens, '_', '-'), hyphens != name) {
        option = command_.get_option_no_throw(hyphens);
        if (option != nullptr)
          return take(*option, hyphens + word.substr(name.size()), word.size() > name.size());
      }
    } else if ((option = command_.get_option_no_throw(word.substr(0, 2))) != nullptr) {
      return take(*option, word, word.size() > 2);  // "-n5", "-vt"
    }
    const bool is_text = name.find_first_of(" \n") != std::string::npos &&
                         command_.get_option_no_throw("PROMPT") != nullptr;
    throw wrong("cria " + command_.get_name() + " has no option " + name +
                (is_text ? " (put -- before a text that begins with a hyphen)"
                         : suggestion(name, option_names(command_))));
  }

  /// False: the option that means the same is none of this subcommand.
  bool read_foreign(const ForeignName& foreign, const std::string& word, const std::string& value) {
    const bool on_terminal = is_terminal(stdin) && is_terminal(stdout);
    if (!foreign.why.empty() && !(foreign.pipe_only && on_terminal))
      throw wrong(name_of(word) + " does not apply: " + std::string(foreign.why));
    if (foreign.ours.empty()) {  // so it is anyway
      if (value.empty()) at_ += foreign.values;
      return true;
    }
    const CLI::Option* option = command_.get_option_no_throw(std::string(foreign.ours));
    if (option == nullptr) return false;
    take(*option, std::string(foreign.ours) + value, !value.empty());
    return true;
  }

  /// The option's word, and what follows as its value whatever it looks like.
  void take(const CLI::Option& option, const std::string& word, bool has_value) {
    out_.given.insert(&option);
    out_.words.push_back(word);
    const int values = std::min(option.get_type_size_min(), option.get_items_expected_min());
    for (int i = has_value ? 1 : 0; i < values && at_ + 1 < typed_.size(); ++i)
      out_.words.push_back(typed_[++at_]);
  }

  CLI::App& command_;
  const std::vector<std::string>& typed_;
  std::size_t at_;
  Arguments& out_;
};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CommandDescription& command : describe_commands(app)) names.push_back(command.name);
  return names;
}

}  // namespace

Arguments read_arguments(CLI::App& app, const std::vector<std::string>& typed) {
  Arguments out;
  if (typed.empty())
    throw wrong("a command is missing. The commands are:\n" +
                command_list(app, help_columns(stderr)));
  const std::string& first = typed.front();
  if (first == "-h" || first == "--help" || first == "-v" || first == "--version") {
    out.words = typed;
    return out;
  }
  if (is_option(first))
    throw wrong("a command is missing before " + name_of(first) + ". The commands are:\n" +
                command_list(app, help_columns(stderr)));
  out.command = find_command(app, first);
  if (out.command == nullptr)
    throw wrong("there is no command " + first + suggestion(first, command_names(app)) +
                "\nThe commands are:\n" + command_list(app, help_columns(stderr)));
  out.words.push_back(first);
  Reader(*out.command, typed, 1, out).read();
  return out;
}

}  // namespace cria::tools
