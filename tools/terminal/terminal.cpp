#include "tools/terminal/terminal.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/terminal/output.h"
#include "tools/terminal/wrap.h"

namespace cria::tools {

// mpirun gives its processes a terminal of its own making, and passes on what comes out: that is a
// pipe.
bool is_terminal(std::FILE* stream) {
  return isatty(fileno(stream)) != 0 && std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr;
}

bool takes_sequences(std::FILE* stream) {
  const char* const term = std::getenv("TERM");
  return is_terminal(stream) && term != nullptr && *term != '\0' &&
         std::string_view(term) != "dumb";
}

bool shows_styles(std::FILE* stream) {
  const char* const no_color = std::getenv("NO_COLOR");
  return takes_sequences(stream) && (no_color == nullptr || *no_color == '\0');
}

std::string styled(std::FILE* stream, Style style, std::string_view text) {
  if (!shows_styles(stream)) return std::string(text);
  constexpr std::string_view kCodes[] = {"\033[1m", "\033[2m", "\033[1;32m"};
  return std::string(kCodes[static_cast<std::size_t>(style)]).append(text).append("\033[0m");
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool control =
        (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    out += control ? std::string{'^', static_cast<char>(c ^ 0x40)} : std::string(1, c);
  }
  return without_del_and_c1(out);
}

std::string without_del_and_c1(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = [&](std::size_t at) {
      return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
    };
    const bool c1 = byte(i) == 0xC2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xA0;
    if (!c1 && byte(i) != 0x7F) {
      out += text[i];
      continue;
    }
    constexpr char kHex[] = "0123456789abcdef";
    const unsigned code = c1 ? byte(++i) : 0x7F;
    out.append("\\u00") += {kHex[code >> 4], kHex[code & 15]};
  }
  return out;
}

std::string for_stream(std::FILE* stream, std::string_view text) {
  return is_terminal(stream) ? without_controls(text) : std::string(text);
}

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

std::string significant(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

namespace {
std::string scaled(double value, double base, const std::array<const char*, 5>& units) {
  std::size_t unit = 0;
  while (value >= base && unit + 1 < units.size()) value /= base, ++unit;
  const int decimals = unit == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return fixed(value, decimals) + units[unit];
}
}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}
std::string human_count(std::uint64_t count) {
  return scaled(static_cast<double>(count), 1000, {"", " k", " M", " G", " T"});
}

namespace {

constexpr std::size_t kIndent = 2;  // indent of continued lines

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
