#include "tools/terminal/width.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <locale.h>
#include <algorithm>
#include <clocale>
#include <cwchar>

#include "model/file/utf8.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

constexpr char32_t kZeroWidthJoiner = 0x200D;

/// Columns of one character; control characters have none. The system's table, whatever the user's
/// locale.
std::size_t columns_of(char32_t character) {
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (character < 0x7F || utf8 == nullptr) return character < 0x20 ? 0 : 1;
  const locale_t before = uselocale(utf8);
  const int columns = wcwidth(static_cast<wchar_t>(character));
  uselocale(before);
  return columns < 0 ? 0 : static_cast<std::size_t>(columns);
}

/// Bytes of the sequence at the start that sets a style ("\033[1;32m"); 0: there is none.
std::size_t style_bytes(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end == std::string_view::npos ? text.size() : end + 1;
}

/// Walks over a text: calls step(bytes, columns) for each character or sequence until it returns
/// false.
template <class Step>
void walk(std::string_view text, Step step) {
  bool joined = false;  // to the character before
  while (!text.empty()) {
    std::size_t bytes = style_bytes(text), columns = 0;
    if (bytes == 0) {
      const Utf8Char c = first_char(text);
      bytes = c.bytes;
      columns = !c.valid ? 1 : joined ? 0 : columns_of(c.code_point);
      joined = c.valid && c.code_point == kZeroWidthJoiner;
    }
    if (!step(bytes, columns)) return;
    text.remove_prefix(bytes);
  }
}

/// One paragraph, without newlines.
std::string wrapped_paragraph(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  std::size_t used = 0;
  bool at_start = true;
  while (!text.empty()) {
    const std::size_t blanks = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = std::min(text.find(' ', blanks), text.size());
    const std::string_view word = text.substr(blanks, end - blanks);
    const std::size_t width = display_width(word);
    if (!at_start && !word.empty() && used + blanks + width > columns) {
      out += "\n" + std::string(indent, ' ');
      used = indent;
    } else {
      out.append(blanks, ' ');
      used += blanks;
    }
    out += word;
    used += width;
    at_start = at_start && word.empty();
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace

std::size_t terminal_columns(std::FILE* stream) {
  constexpr std::size_t kUsual = 80;  // of terminals that do not say
  const int descriptor = fileno(stream);
  if (!is_terminal(stream)) return 0;
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  walk(text, [&](std::size_t, std::size_t columns) {
    width += columns;
    return true;
  });
  return width;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::size_t bytes = 0, width = 0;
  walk(text, [&](std::size_t more, std::size_t wide) {
    if (width + wide > columns - 1) return false;
    bytes += more;
    width += wide;
    return true;
  });
  return std::string(text.substr(0, bytes)) + "…";
}

std::vector<std::string> pieces(std::string_view text, std::size_t columns) {
  std::vector<std::string> all(1);
  std::size_t width = 0;
  walk(text, [&, at = std::size_t{0}](std::size_t bytes, std::size_t wide) mutable {
    if (width + wide > columns && width > 0) {
      all.emplace_back();
      width = 0;
    }
    const bool fits = wide <= columns;
    all.back() += fits ? text.substr(at, bytes) : "…";
    width += fits ? wide : 1;
    at += bytes;
    return true;
  });
  return all;
}

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find('\n');
    out += wrapped_paragraph(text.substr(0, end), columns, indent);
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace cria::tools
