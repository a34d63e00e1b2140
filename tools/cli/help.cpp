#include "tools/cli/command_line.h"

#include <algorithm>
#include <sstream>

#include "tools/terminal/wrap.h"

namespace cria::tools {
namespace {

constexpr std::size_t kWidest = 110, kUsualWidth = 80, kNarrow = 64;
constexpr std::size_t kFlagColumn = 26;  // where descriptions of flags begin

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

std::string flag_entry(const Flag& flag, std::size_t columns) {
  const std::string value = flag.value_name();
  std::string name = flag.is_argument() ? value : joined(flag.all_names());
  if (!flag.is_argument() && !value.empty()) name += " " + value;
  std::string text = flag.help;
  if (!flag.target.default_text.empty()) text += " [" + flag.target.default_text + "]";
  if (flag.rules.required) text += " (required)";
  return entry(name, text, kFlagColumn, columns);
}

/// The arguments, or the flags of a group, under their heading; without those that `hides` selects.
template <class Hides>
std::string group_text(const Command& command, const std::string& heading, std::size_t columns,
                       const Hides& hides) {
  std::string out;
  for (const Flag& flag : command.flags)
    if ((flag.is_argument() ? "Arguments" : flag.group()) == heading && !hides(flag))
      out += flag_entry(flag, columns);
  return out.empty() ? "" : "\n" + heading + ":\n" + out;
}

Words headings_of(const Command& command) {
  Words headings;
  for (const Flag& flag : command.flags)
    if (!flag.is_argument() && std::ranges::count(headings, flag.group()) == 0)
      headings.push_back(flag.group());
  return headings;
}

constexpr std::size_t kShortHelp = 40;  // a command's own options fit on a screen or two

/// True for flags on the first screen of the help.
bool is_common(const Flag& flag) {
  constexpr std::string_view kCommon[] = {
      "--help",         "--help-all", "--model",   "--prompt",     "--file",          "--messages",
      "--system",       "--ctx",      "--threads", "--max-tokens", "--temp",          "--seed",
      "--preset",       "--json",     "--raw",     "--no-think",   "--show-thinking", "--session",
      "--verbose",      "--parallel", "--host",    "--port",       "--slots",         "--alias",
      "--api-key-file", "--no-web"};
  return flag.rules.required || std::ranges::count(kCommon, flag.shown_name()) != 0;
}

std::string usage(const Command& command) {
  std::string text = "Usage: cria " + command.name + " [OPTIONS]";
  for (const Flag& flag : command.flags)
    if (flag.is_argument()) {
      const std::string word = flag.names + (flag.is_list() ? "..." : "");
      text += flag.rules.required ? " " + word : " [" + word + "]";
    }
  return text;
}

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

std::string command_list(const Program& program, std::size_t columns) {
  std::size_t width = 0;
  for (const Command& command : program.commands) width = std::max(width, command.name.size());
  std::string out;
  for (const Command& command : program.commands)
    out += entry(command.name, command.summary, width + 4, columns);
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

std::string help_text(const Program& program) {
  const std::size_t columns = help_columns(stdout);
  return wrapped(program.description, columns) + "\n\n" +
         wrapped("Usage: cria COMMAND [OPTIONS]", columns, 4) + "\n\nCommands:\n" +
         command_list(program, columns) + "\nOptions:\n" +
         entry("-h, --help", "print this help and exit", kFlagColumn, columns) +
         entry("-v, --version", "print the version and exit", kFlagColumn, columns) + "\n" +
         footer_text(program.notes, columns) + "\n";
}

bool is_in_short_help(const Command& command, const Flag& flag) {
  if (flag.is_argument()) return true;
  return command.flags.size() > kShortHelp ? is_common(flag) : flag.rules.group.empty();
}

std::string help_text(const Command& command, bool all) {
  const std::size_t columns = help_columns(stdout);
  std::string out =
      wrapped(command.summary, columns) + "\n\n" + wrapped(usage(command), columns, 4) + "\n";
  Words hidden;
  std::size_t others = 0;
  const auto hides = [&](const Flag& flag) { return !all && !is_in_short_help(command, flag); };
  for (const Flag& flag : command.flags) {
    if (!hides(flag)) continue;
    ++others;
    if (std::ranges::count(hidden, flag.group()) == 0) hidden.push_back(flag.group());
  }
  out += group_text(command, "Arguments", columns, hides);
  for (const std::string& heading : headings_of(command))
    out += group_text(command, heading, columns, hides);
  if (!command.notes.empty()) out += "\n" + footer_text(command.notes, columns) + "\n";
  if (others == 0) return out;
  return out + "\n" +
         wrapped("cria " + command.name + " --help-all shows " + std::to_string(others) +
                     " more options: " + joined(hidden) + ".",
                 columns) +
         "\n";
}

}  // namespace cria::tools
