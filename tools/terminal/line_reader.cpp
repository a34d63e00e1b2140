#include "tools/terminal/line_reader.h"

#include <unistd.h>

#include <cerrno>

#include "tools/terminal/interrupt.h"
#include "tools/terminal/terminal_reader.h"

namespace cria::tools {
namespace {

class PlainReader : public LineReader {
 public:
  Read line(const std::string&, TypedText& out) override {
    std::size_t end = 0;
    while ((end = buffer_.find('\n')) == std::string::npos) {
      if (!wait_readable(STDIN_FILENO)) return Read::Interrupt;
      char bytes[4096];
      const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      buffer_.append(bytes, static_cast<std::size_t>(n));
    }
    if (buffer_.empty()) return Read::End;
    out = {buffer_.substr(0, end)};
    buffer_.erase(0, end == std::string::npos ? end : end + 1);
    if (out.text.ends_with('\r')) out.text.pop_back();
    return Read::Line;
  }
  void remember(const std::string&) override {}

 private:
  std::string buffer_;  // read, but not yet a line
};

constexpr std::string_view kFence = "\"\"\"";
constexpr const char* kMore = ".";

/// One more line of a message. Of a message that was begun a Ctrl-C throws away something in any
/// case.
Read read_more(LineReader& reader, TypedText& line) {
  const Read read = reader.line(kMore, line);
  return read == Read::Interrupt ? Read::Cleared : read;
}

/// Whether a line with such a text would be read as something else.
bool needs_fences(const std::string& text) {
  return text.find('\n') != std::string::npos || text.starts_with('/') ||
         text.starts_with(kFence) || text.ends_with('\\');
}

/// Adds lines to a text until one ends with """. One that the history has brought back is complete.
Read read_fenced(LineReader& reader, std::string& text, bool& unclosed) {
  if (text.starts_with('\n')) text.erase(0, 1);
  TypedText line;
  bool closed = text.ends_with(kFence);
  while (!closed) {
    const Read read = read_more(reader, line);
    if (read == Read::Cleared) return read;
    if (read == Read::End) return unclosed = true, Read::Line;
    text += (text.empty() ? "" : "\n") + line.text;
    closed = !line.literal && text.ends_with(kFence);
  }
  text.resize(text.size() - kFence.size());
  if (text.ends_with('\n')) text.pop_back();
  return Read::Line;
}

/// Adds lines to a text as long as it ends in a backslash.
Read read_continued(LineReader& reader, std::string& text) {
  TypedText line;
  while (text.ends_with('\\')) {
    const Read read = read_more(reader, line);
    if (read == Read::Cleared) return read;
    text.back() = '\n';
    if (read == Read::End) return Read::Line;
    text += line.text;
    if (line.literal) return Read::Line;
  }
  return Read::Line;
}

}  // namespace

std::unique_ptr<LineReader> LineReader::create(bool terminal, Completer completer) {
  if (terminal) return std::make_unique<TerminalReader>(std::move(completer));
  return std::make_unique<PlainReader>();
}

Read read_message(LineReader& reader, TypedText& out) {
  Read read = reader.line(">", out);
  if (read != Read::Line) return read;
  if (!out.literal && out.text.starts_with(kFence)) {
    out = {out.text.substr(kFence.size()), true};
    read = read_fenced(reader, out.text, out.unclosed);
  } else if (!out.literal) {
    read = read_continued(reader, out.text);
  }
  if (read != Read::Line) return read;
  const std::string fence(kFence);
  reader.remember(out.literal && needs_fences(out.text) ? fence + "\n" + out.text + "\n" + fence
                                                        : out.text);
  return read;
}

}  // namespace cria::tools
