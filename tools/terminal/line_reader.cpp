#include "tools/terminal/line_reader.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "tools/terminal/terminal.h"
#include "tools/terminal/terminal_reader.h"

namespace cria::tools {

namespace {

namespace fs = std::filesystem;

/// "" without a home directory.
std::string history_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  fs::path directory;
  if (state != nullptr && *state == '/')
    directory = state;
  else if (home != nullptr && *home != '\0')
    directory = fs::path(home) / ".local/state";
  else
    return "";
  directory /= "cria";
  std::error_code error;
  fs::create_directories(directory, error);
  return error ? "" : (directory / "history").string();
}

::History* empty_history() {
  ::History* history = history_init();
  HistEvent event;
  ::history(history, &event, H_SETSIZE, 1000);
  ::history(history, &event, H_SETUNIQUE, 1);
  return history;
}

}  // namespace

MessageHistory::MessageHistory() : file_(history_path()), history_(empty_history()) {
  HistEvent event;
  if (!file_.empty()) ::history(history_, &event, H_LOAD, file_.c_str());
}

MessageHistory::~MessageHistory() { history_end(history_); }

void MessageHistory::add(const std::string& message) {
  HistEvent event;
  ::history(history_, &event, H_ENTER, message.c_str());
  if (file_.empty()) return;
  // Conversations are private: only the user can read the file.
  const int lock = open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return;
  flock(lock, LOCK_EX);
  ::History* const all = empty_history();  // keeps lines that another chat has added to the file
  ::history(all, &event, H_LOAD, file_.c_str());
  ::history(all, &event, H_ENTER, message.c_str());
  ::history(all, &event, H_SAVE, file_.c_str());
  history_end(all);
  close(lock);
}

namespace {

namespace fs = std::filesystem;

std::string editor() {
  for (const char* const name : {"VISUAL", "EDITOR"}) {
    if (const char* const value = std::getenv(name); value != nullptr && *value != '\0')
      return value;
  }
  return "vi";
}

/// A private temporary file, removed with this object. Its path is empty if it cannot be made.
class TemporaryText {
 public:
  explicit TemporaryText(const std::string& text) {
    std::error_code error;
    const fs::path directory = fs::temp_directory_path(error);
    if (error) return;
    std::string path = (directory / "cria-message-XXXXXX").string();
    const int descriptor = mkstemp(path.data());
    if (descriptor < 0) return;
    close(descriptor);
    path_ = std::move(path);
    std::ofstream(path_, std::ios::binary) << text << (text.empty() ? "" : "\n");
  }
  ~TemporaryText() {
    std::error_code gone;
    if (is_there()) fs::remove(path_, gone);
  }
  TemporaryText(const TemporaryText&) = delete;
  TemporaryText& operator=(const TemporaryText&) = delete;

  [[nodiscard]] bool is_there() const { return !path_.empty(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

}  // namespace

std::string edit_text(const std::string& text) {
  const TemporaryText file(text);
  if (!file.is_there()) return text;
  // The name reaches the shell by the environment: nothing in it can be taken for more than a name.
  setenv("CRIA_EDITED_FILE", file.path().c_str(), 1);
  const int status = std::system((editor() + " \"$CRIA_EDITED_FILE\"").c_str());
  unsetenv("CRIA_EDITED_FILE");
  if (status != 0) return text;
  std::string edited = file.read();
  while (edited.ends_with('\n')) edited.pop_back();
  return edited;
}

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

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
    if (std::exchange(first_, false) && out.text.starts_with(kByteOrderMark))
      out.text.erase(0, kByteOrderMark.size());
    return Read::Line;
  }
  void remember(const std::string&) override {}

 private:
  bool first_ = true;
  std::string buffer_;  // read, but not yet a line
};

constexpr std::string_view kFence = "\"\"\"";
constexpr const char* kMore = ".";

/// One more line of a message. In a message that was begun, Ctrl-C always discards something.
Read read_more(LineReader& reader, TypedText& line) {
  const Read read = reader.line(kMore, line);
  return read == Read::Interrupt ? Read::Cleared : read;
}

/// True if the text would be read as something else on a line.
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

/// Reads the text of a command from its """ on.
Read read_argument(LineReader& reader, std::size_t fence, TypedText& out) {
  std::string text = out.text.substr(fence + kFence.size());
  const Read read = read_fenced(reader, text, out.unclosed);
  out.text = out.text.substr(0, fence) + text;
  return read;
}

/// Reads on if the text is /system (/set system, elsewhere) with a text that begins with """.
Read read_command(LineReader& reader, TypedText& out) {
  const std::string_view text = out.text;
  for (const std::string_view command : {"/system ", "/set system "}) {
    const std::size_t fence = text.find_first_not_of(' ', command.size());
    if (text.starts_with(command) && fence != std::string_view::npos &&
        text.substr(fence).starts_with(kFence))
      return read_argument(reader, fence, out);
  }
  return read_continued(reader, out.text);
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
    read = read_command(reader, out);
  }
  if (read != Read::Line) return read;
  const std::string fence(kFence);
  reader.remember(out.literal && needs_fences(out.text) ? fence + "\n" + out.text + "\n" + fence
                                                        : out.text);
  return read;
}

}  // namespace cria::tools
