#include "tools/options/help.h"

#include <algorithm>
#include <sstream>

#include "tools/options/command_line.h"
#include "tools/terminal/width.h"

namespace cria::tools {
namespace {

constexpr std::size_t kWidest = 110, kUsualWidth = 80, kNarrow = 64;
constexpr std::size_t kOptionColumn = 26;  // where descriptions of options begin

/// "  name   text" with the text's lines one below the other; text below the name where that is
/// long or the terminal narrow.
std::string entry(const std::string& name, const std::string& text, std::size_t column,
                  std::size_t columns) {
  const std::string head = "  " + name;
  const std::size_t begin = columns < kNarrow ? 6 : column;
  const std::string body = wrapped(text, columns > begin + 10 ? columns - begin : 10);
  const bool beside = columns >= kNarrow && display_width(head) + 2 <= begin;
  std::string out = beside ? head + std::string(begin - display_width(head), ' ')
                           : wrapped(head, columns, 4) + "\n" + std::string(begin, ' ');
  for (const char c : body) out += c == '\n' ? "\n" + std::string(begin, ' ') : std::string(1, c);
  return out + "\n";
}

std::string option_entry(const CLI::Option& option, std::size_t columns) {
  const OptionDescription d = describe_option(option);
  std::string name = d.joined_names();
  if (!d.value.empty()) name += (name.empty() ? "" : " ") + d.value;
  std::string text = d.help;
  if (!d.default_value.empty() && !d.value.empty()) text += " [" + d.default_value + "]";
  if (option.get_required()) text += " (required)";
  return entry(name, text, kOptionColumn, columns);
}

/// Options of a group, or the positionals (group: null), under a heading.
std::string options_text(const CLI::App& app, const std::string* group, std::size_t columns) {
  std::string out;
  for (const CLI::Option* option : app.get_options()) {
    const bool wanted = group == nullptr
                            ? option->get_positional()
                            : !option->get_positional() && option->get_group() == *group;
    if (wanted && !option->get_group().empty()) out += option_entry(*option, columns);
  }
  if (out.empty()) return "";
  return "\n" + (group == nullptr ? std::string("Arguments") : *group) + ":\n" + out;
}

std::string usage(const CLI::App& app, const std::string& name) {
  std::string text = "Usage: " + (app.get_parent() != nullptr ? "cria " + app.get_name() : name);
  if (app.get_parent() == nullptr) return text + " COMMAND [OPTIONS]";
  text += " [OPTIONS]";
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) {
      const std::string word =
          option->get_name(true, false) + (describe_option(*option).list ? "..." : "");
      text += option->get_required() ? " " + word : " [" + word + "]";
    }
  return text;
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    const std::size_t columns = help_columns(stdout);
    std::string out = wrapped(app->get_description(), columns) + "\n\n" +
                      wrapped(usage(*app, name), columns, 4) + "\n";
    if (app->get_parent() == nullptr) out += "\nCommands:\n" + command_list(*app, columns);
    out += options_text(*app, nullptr, columns);
    for (const std::string& group : app->get_groups()) out += options_text(*app, &group, columns);
    if (!app->get_footer().empty()) out += "\n" + footer_text(app->get_footer(), columns) + "\n";
    return out;
  }
};

constexpr char kQuotedBlank = '\xFF';  // a column wide, and in no UTF-8

/// With other blanks between quotes.
std::string with_quoted_blanks(std::string line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '"' && c == '\\')
      ++i;
    else if (quote != 0 ? c == quote : c == '"' || c == '\'')
      quote = quote != 0 ? '\0' : c;
    else if (quote != 0 && c == ' ')
      line[i] = kQuotedBlank;
  }
  return line;
}

/// A command line in lines that end in a backslash. What is quoted stays whole: there a backslash
/// would be a part of it.
std::string command_lines(const std::string& line, std::size_t columns) {
  const std::string broken =
      wrapped(with_quoted_blanks(line), std::max<std::size_t>(columns, 22) - 2, 6);
  std::string out;
  for (const char c : broken) {
    if (c == '\n') out += " \\";
    out += c == kQuotedBlank ? ' ' : c;
  }
  return out;
}

}  // namespace

std::size_t help_columns(std::FILE* stream) {
  const std::size_t columns = terminal_columns(stream);
  return columns == 0 ? kUsualWidth : std::min(columns, kWidest);
}

std::string command_list(const CLI::App& app, std::size_t columns) {
  const std::vector<CommandDescription> commands = describe_commands(app);
  std::size_t width = 0;
  for (const CommandDescription& command : commands) width = std::max(width, command.name.size());
  std::string out;
  for (const CommandDescription& command : commands)
    out += entry(command.name, command.help, width + 4, columns);
  return out;
}

std::string footer_text(const std::string& footer, std::size_t columns) {
  std::istringstream lines(footer);
  std::string out, paragraph;
  const auto finish = [&] {
    if (!paragraph.empty()) out += wrapped(paragraph, columns) + "\n";
    paragraph.clear();
  };
  for (std::string line; std::getline(lines, line);) {
    const bool is_prose = !line.empty() && line.front() != ' ';
    if (is_prose && !paragraph.empty() && !paragraph.ends_with('.') && !paragraph.ends_with(':')) {
      paragraph += " " + line;
      continue;
    }
    finish();
    if (is_prose)
      paragraph = line;
    else
      out += command_lines(line, columns) + "\n";
  }
  finish();
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace cria::tools
