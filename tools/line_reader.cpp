#include "tools/line_reader.h"

#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>

#include "tools/interrupt.h"
#include "tools/terminal.h"

namespace cria::tools {
namespace {

namespace fs = std::filesystem;

class PlainReader : public LineReader {
 public:
  Read line(const std::string&, std::string& out) override {
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
    out = buffer_.substr(0, end);
    buffer_.erase(0, end == std::string::npos ? end : end + 1);
    if (out.ends_with('\r')) out.pop_back();
    return Read::Line;
  }
  void remember(const std::string&) override {}

 private:
  std::string buffer_;  // read, but not yet a line
};

/// $XDG_STATE_HOME/cria/history, its directory made; "" where there is no home.
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

/// libedit counts characters by the locale's encoding; where that is not UTF-8 (LANG=C), take one that is.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

/// The terminal that is standard input, opened once more: reading it never blocks, which is nobody else's
/// business. A Ctrl-C throws away what was typed, also between a poll that saw it and the read.
class TerminalInput {
 public:
  TerminalInput() {
    char path[PATH_MAX];
    if (ttyname_r(STDIN_FILENO, path, sizeof path) == 0)
      own_ = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  }
  ~TerminalInput() {
    if (own_ >= 0) close(own_);
  }
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;
  [[nodiscard]] int descriptor() const { return own_ >= 0 ? own_ : STDIN_FILENO; }

 private:
  int own_ = -1;
};

/// A prompt for libedit: sequences that take no room stand between \1. (One at the very end would be lost.)
std::string prompt_escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('\033', at)) != std::string::npos; at += 3) {
    text.insert(text.find('m', at) + 1, 1, '\1');
    text.insert(at, 1, '\1');
  }
  return text;
}

class TerminalReader : public LineReader {
 public:
  TerminalReader() : history_file_(history_path()) {
    use_utf8();
    edit_ = el_init("cria", stdin, stdout, stderr);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, 1000);
    history(history_, &event, H_SETUNIQUE, 1);
    if (!history_file_.empty()) history(history_, &event, H_LOAD, history_file_.c_str());
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT_ESC, &TerminalReader::prompt, '\1');
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_HIST, &::history, history_);
    el_set(edit_, EL_GETCFN, &TerminalReader::get);
    el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(edit_, nullptr);  // the user's ~/.editrc
  }
  ~TerminalReader() override {
    el_end(edit_);
    history_end(history_);
  }
  TerminalReader(const TerminalReader&) = delete;
  TerminalReader& operator=(const TerminalReader&) = delete;

  Read line(const std::string& prompt_text, std::string& out) override {
    prompt_ = prompt_escaped(styled(stdout, Style::Prompt, prompt_text)) + " ";
    interrupted_ = false;
    el_set(edit_, EL_PREP_TERM,
           1);  // else what is typed right after the prompt shows meets a cooked terminal
    int n = 0;
    const char* text = el_gets(edit_, &n);
    if (interrupted_) {
      el_reset(edit_);
      std::fputs("\n", stdout);
      return Read::Interrupt;
    }
    if (text == nullptr || n <= 0) return Read::End;
    out.assign(text, static_cast<std::size_t>(n));
    if (out.ends_with('\n')) out.pop_back();
    return Read::Line;
  }

  void remember(const std::string& message) override {
    HistEvent event;
    history(history_, &event, H_ENTER, message.c_str());
    if (history_file_.empty()) return;
    const mode_t mask = umask(077);  // what was said is the user's own business
    history(history_, &event, H_SAVE, history_file_.c_str());
    umask(mask);
  }

 private:
  static TerminalReader& self(EditLine* edit) {
    void* data = nullptr;
    el_get(edit, EL_CLIENTDATA, &data);
    return *static_cast<TerminalReader*>(data);
  }
  static char* prompt(EditLine* edit) { return self(edit).prompt_.data(); }

  /// One character; libedit's own function would miss an interrupt.
  static int get(EditLine* edit, wchar_t* out) {
    const int input = self(edit).input_.descriptor();
    std::mbstate_t state = {};
    for (;;) {
      if (!wait_readable(input)) {
        self(edit).interrupted_ = true;
        return -1;
      }
      char byte = 0;
      const ssize_t n = read(input, &byte, 1);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return static_cast<int>(n);
      const std::size_t used = std::mbrtowc(out, &byte, 1, &state);
      if (used == static_cast<std::size_t>(-1))
        state = {};  // not UTF-8: drop it
      else if (used != static_cast<std::size_t>(-2))
        return 1;
    }
  }

  TerminalInput input_;
  std::string history_file_, prompt_;
  EditLine* edit_ = nullptr;
  History* history_ = nullptr;
  bool interrupted_ = false;
};

}  // namespace

std::unique_ptr<LineReader> LineReader::create(bool terminal) {
  if (terminal) return std::make_unique<TerminalReader>();
  return std::make_unique<PlainReader>();
}

Read read_message(LineReader& reader, std::string& out) {
  constexpr const char* kMore = ".";
  constexpr std::string_view kFence = "\"\"\"";
  out.clear();
  std::string line;
  Read read = reader.line(">", line);
  if (read != Read::Line) return read;
  if (line.starts_with(kFence)) {
    out = line.substr(kFence.size());
    while (!out.ends_with(kFence)) {
      if ((read = reader.line(kMore, line)) != Read::Line) return read;
      out += (out.empty() ? "" : "\n") + line;
    }
    out.resize(out.size() - kFence.size());
    if (out.ends_with('\n')) out.pop_back();
  } else {
    while (line.ends_with('\\')) {
      line.back() = '\n';
      out += line;
      if ((read = reader.line(kMore, line)) != Read::Line) return read == Read::End ? Read::Line : read;
    }
    out += line;
  }
  reader.remember(out);
  return Read::Line;
}

}  // namespace cria::tools
