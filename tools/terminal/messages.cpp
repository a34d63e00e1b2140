#include "tools/terminal/messages.h"

#include <cstdio>
#include <string>

#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/width.h"

namespace cria::tools {
namespace {

constexpr std::size_t kIndent = 2;  // of the lines that a long one is broken into

std::string fitted(std::FILE* stream, std::string_view text) {
  const std::size_t columns = terminal_columns(stream);
  return columns == 0 ? std::string(text) : wrapped(without_controls(text), columns, kIndent);
}

void print(std::string_view prefix, std::string_view text) {
  const std::string line = fitted(stderr, std::string(prefix).append(text)) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void print_line(std::string_view text) { print("", text); }
void print_error(std::string_view text) { print("cria: error: ", text); }
void print_warning(std::string_view text) { print("cria: warning: ", text); }
void print_note(std::string_view text) { print("cria: note: ", text); }

void write_text(std::string_view text) { write_stdout(fitted(stdout, text)); }

}  // namespace cria::tools
