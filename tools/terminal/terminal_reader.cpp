#include "tools/terminal/terminal_reader.h"

#include <fcntl.h>
#include <langinfo.h>
#include <unigbrk.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>

#include "tools/terminal/line_reader.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

constexpr const char* kBracketsOn = "\033[?2004h";
constexpr const char* kBracketsOff = "\033[?2004l";
constexpr std::wstring_view kPasteEnd = L"\033[201~";

/// libedit counts characters by the locale's encoding; where that is not UTF-8 (LANG=C), take one
/// that is.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

/// A prompt for libedit: sequences that take no room stand between \1. (One at the very end would
/// be lost.)
std::string prompt_escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('\033', at)) != std::string::npos; at += 3) {
    text.insert(text.find('m', at) + 1, 1, '\1');
    text.insert(at, 1, '\1');
  }
  return text;
}

void show(const char* sequence) {
  std::fputs(sequence, stdout);
  std::fflush(stdout);
}

/// The text as typed: lines end with newlines only, without control characters.
std::wstring cleaned(std::wstring text) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == L'\r') {
      if (i + 1 < text.size() && text[i + 1] == L'\n') continue;
      text[i] = L'\n';
    }
    if ((text[i] >= L' ' && text[i] != 0x7F) || text[i] == L'\n' || text[i] == L'\t')
      text[kept++] = text[i];
  }
  text.resize(kept);
  while (text.ends_with(L'\n')) text.pop_back();
  return text;
}

/// The starts of the line's characters (a letter with its accents, a joined emoji), and its end.
std::vector<int> character_places(const LineInfoW& line) {
  static_assert(sizeof(wchar_t) == sizeof(std::uint32_t));
  const auto n = static_cast<std::size_t>(line.lastchar - line.buffer);
  std::vector<char> begins(n);
  u32_grapheme_breaks(reinterpret_cast<const std::uint32_t*>(line.buffer), n, begins.data());
  std::vector<int> places;
  for (std::size_t i = 0; i < n; ++i) {
    if (begins[i] != 0) places.push_back(static_cast<int>(i));
  }
  places.push_back(static_cast<int>(n));
  return places;
}

/// From the cursor to the end of the character behind it; 0 at the end of the line.
int step_right(EditLine* edit) {
  const LineInfoW* const line = el_wline(edit);
  const auto cursor = static_cast<int>(line->cursor - line->buffer);
  const std::vector<int> places = character_places(*line);
  const auto found = std::upper_bound(places.begin(), places.end(), cursor);
  return found == places.end() ? 0 : *found - cursor;
}

/// Bytes of the character before the cursor; 0 at the start of the line.
int step_left(EditLine* edit) {
  const LineInfoW* const line = el_wline(edit);
  const auto cursor = static_cast<int>(line->cursor - line->buffer);
  const std::vector<int> places = character_places(*line);
  const auto found = std::lower_bound(places.begin(), places.end(), cursor);
  return found == places.begin() ? 0 : cursor - *(found - 1);
}

std::string common_beginning(const std::vector<std::string>& texts) {
  std::string common = texts.front();
  for (const std::string& text : texts)
    common.resize(static_cast<std::size_t>(
        std::mismatch(common.begin(), common.end(), text.begin(), text.end()).first -
        common.begin()));
  const std::string& first = texts.front();
  while (!common.empty() && common.size() < first.size() &&
         (static_cast<unsigned char>(first[common.size()]) & 0xC0U) == 0x80U)
    common.pop_back();  // no character is cut
  return common;
}

}  // namespace

TerminalReader::Input::Input() {
  char path[PATH_MAX];
  if (ttyname_r(STDIN_FILENO, path, sizeof path) == 0)
    own_ = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
}
TerminalReader::Input::~Input() {
  if (own_ >= 0) close(own_);
}
int TerminalReader::Input::descriptor() const { return own_ >= 0 ? own_ : STDIN_FILENO; }

TerminalReader::TerminalReader(Completer completer)
    : completer_(std::move(completer)), brackets_(takes_sequences(stdout)) {
  use_utf8();
  edit_ = el_init("cria", stdin, stdout, stderr);
  el_set(edit_, EL_CLIENTDATA, this);
  el_set(
      edit_, EL_PROMPT_ESC, +[](EditLine* edit) { return of(edit).prompt_.data(); }, '\1');
  el_set(edit_, EL_EDITOR, "emacs");
  el_set(edit_, EL_HIST, &::history, history_.handle());
  el_set(edit_, EL_GETCFN, &TerminalReader::get);
  el_set(edit_, EL_SETTY, "-d", "-isig", "-icrnl", "-inlcr", nullptr);
  bind_keys();
  el_source(edit_, nullptr);  // the user's ~/.editrc
  if (!brackets_) return;
  set_last_words(kBracketsOff);
  show(kBracketsOn);
}

TerminalReader::~TerminalReader() {
  el_end(edit_);
  if (!brackets_) return;
  show(kBracketsOff);
  set_last_words("");
}

void TerminalReader::bind(const char* name, const char* help, Key* key,
                          std::initializer_list<const char*> keys) {
  el_set(edit_, EL_ADDFN, name, help, key);
  for (const char* const sequence : keys) el_set(edit_, EL_BIND, sequence, name, nullptr);
}

void TerminalReader::bind_keys() {
  el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  bind("cria-interrupt", "throws the line away", interrupt, {"^C"});
  bind("cria-suspend", "stops the program", suspend, {"^Z"});
  bind("cria-end", "deletes a character; ends the input on an empty line", end_or_delete,
       {"^D", "\\e[3~"});
  bind("cria-edit", "opens the editor", edit_elsewhere, {"^G"});
  bind("cria-complete", "completes a command", complete, {"^I"});
  bind("cria-paste", "takes what is pasted", paste, {"\\e[200~"});
  bind("cria-left", "moves a character back", left, {"^B", "\\e[D", "\\eOD"});
  bind("cria-right", "moves a character forth", right, {"^F", "\\e[C", "\\eOC"});
  bind("cria-delete-left", "deletes the character before the cursor", delete_left, {"^H", "^?"});
}

Read TerminalReader::line(const std::string& prompt_text, TypedText& out) {
  prompt_ = prompt_escaped(styled(stdout, Style::Prompt, prompt_text)) + " ";
  read_ = Read::Line;
  literal_.clear();
  el_resize(edit_);
  // Else what is typed right after the prompt shows meets a cooked terminal.
  el_set(edit_, EL_PREP_TERM, 1);
  int n = 0;
  const char* const typed = el_gets(edit_, &n);
  if (read_ == Read::Line && (typed == nullptr || n <= 0)) read_ = Read::End;
  if (read_ != Read::Line) {
    el_reset(edit_);
    std::fputs("\n", stdout);
    std::fflush(stdout);
    return read_;
  }
  out = {std::string(typed, static_cast<std::size_t>(n))};
  if (out.text.ends_with('\n')) out.text.pop_back();
  out.literal = !literal_.empty() && out.text.starts_with(literal_);
  return Read::Line;
}

void TerminalReader::remember(const std::string& message) { history_.add(message); }

TerminalReader& TerminalReader::of(EditLine* edit) {
  void* data = nullptr;
  el_get(edit, EL_CLIENTDATA, &data);
  return *static_cast<TerminalReader*>(data);
}

std::string TerminalReader::text() const {
  const LineInfo* const line = el_line(edit_);
  return {line->buffer, line->lastchar};
}
std::string TerminalReader::text_to_cursor() const {
  const LineInfo* const line = el_line(edit_);
  return {line->buffer, line->cursor};
}

void TerminalReader::replace_line(const std::string& text) {
  el_cursor(edit_, INT_MAX / 2);
  const LineInfoW* const line = el_wline(edit_);
  el_deletestr(edit_, static_cast<int>(line->lastchar - line->buffer));
  el_insertstr(edit_, text.c_str());
}

/// Hands the terminal to another program, and takes it back.
void TerminalReader::leave_line() {
  el_set(edit_, EL_PREP_TERM, 0);
  if (brackets_) show(kBracketsOff);
}
void TerminalReader::return_to_line() {
  el_set(edit_, EL_PREP_TERM, 0);  // it has forgotten what it was, or another program changed it
  el_set(edit_, EL_PREP_TERM, 1);
  if (brackets_) show(kBracketsOn);
}

/// One character for libedit, whose own function would miss signals. 1: read, 0: end, -1: the line
/// ends.
int TerminalReader::get(EditLine* edit, wchar_t* out) {
  TerminalReader& reader = of(edit);
  if (reader.read_ != Read::Line) return -1;
  const int read = reader.read_character(*out);
  el_resize(edit);
  return read;
}

int TerminalReader::read_character(wchar_t& out) {
  const int input = input_.descriptor();
  std::mbstate_t state = {};
  for (;;) {
    const bool readable = wait_readable(input, [this] {  // after SIGCONT
      return_to_line();
      el_set(edit_, EL_REFRESH);
    });
    if (!readable) {
      read_ = text().empty() ? Read::Interrupt : Read::Cleared;
      return -1;
    }
    char byte = 0;
    const ssize_t n = read(input, &byte, 1);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return static_cast<int>(n);
    const std::size_t used = std::mbrtowc(&out, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-1))
      state = {};  // not UTF-8: drop it
    else if (used != static_cast<std::size_t>(-2))
      return 1;
  }
}

unsigned char TerminalReader::interrupt(EditLine* edit, int) {
  TerminalReader& reader = of(edit);
  reader.read_ = reader.text().empty() ? Read::Interrupt : Read::Cleared;
  el_cursor(edit, INT_MAX / 2);
  el_insertstr(edit, "^C");
  return CC_REFRESH;
}

unsigned char TerminalReader::end_or_delete(EditLine* edit, int key) {
  TerminalReader& reader = of(edit);
  if (reader.text().empty() && key == ('D' & 0x1F)) {
    reader.read_ = Read::End;
    return CC_NORM;
  }
  const int length = step_right(edit);
  if (length == 0) return CC_ERROR;
  el_cursor(edit, length);
  el_deletestr(edit, length);
  return CC_REFRESH;
}

unsigned char TerminalReader::delete_left(EditLine* edit, int) {
  const int length = step_left(edit);
  if (length == 0) return CC_ERROR;
  el_deletestr(edit, length);
  return CC_REFRESH;
}

unsigned char TerminalReader::left(EditLine* edit, int) {
  el_cursor(edit, -step_left(edit));
  return CC_CURSOR;
}

unsigned char TerminalReader::right(EditLine* edit, int) {
  el_cursor(edit, step_right(edit));
  return CC_CURSOR;
}

unsigned char TerminalReader::suspend(EditLine* edit, int) {
  TerminalReader& reader = of(edit);
  reader.leave_line();
  stop_process();
  reader.return_to_line();
  el_set(edit, EL_REFRESH);
  return CC_NORM;
}

unsigned char TerminalReader::edit_elsewhere(EditLine* edit, int) {
  TerminalReader& reader = of(edit);
  reader.leave_line();
  const std::string edited = edit_text(reader.text());
  reader.return_to_line();
  reader.replace_line(edited);
  if (edited.find('\n') != std::string::npos) reader.literal_ = edited;
  return CC_REDISPLAY;
}

unsigned char TerminalReader::paste(EditLine* edit, int) {
  TerminalReader& reader = of(edit);
  std::wstring pasted;
  for (wchar_t c = 0; !pasted.ends_with(kPasteEnd); pasted += c) {
    if (reader.read_character(c) <= 0) return CC_EOF;
  }
  pasted.resize(pasted.size() - kPasteEnd.size());
  pasted = cleaned(std::move(pasted));
  const bool at_front = reader.text_to_cursor().empty();
  el_winsertstr(edit, pasted.c_str());
  if (at_front) reader.literal_ = reader.text_to_cursor();
  return CC_REFRESH;
}

unsigned char TerminalReader::complete(EditLine* edit, int) {
  const TerminalReader& reader = of(edit);
  const std::string typed = reader.text_to_cursor();
  const std::vector<std::string> known =
      reader.completer_ ? reader.completer_(typed) : std::vector<std::string>{};
  if (known.empty()) return CC_ERROR;
  const std::string common = common_beginning(known);
  if (common.size() > typed.size()) {
    el_insertstr(edit, common.substr(typed.size()).c_str());
    return CC_REFRESH;
  }
  if (known.size() == 1) return CC_ERROR;
  std::string list = "\n";
  for (const std::string& text : known) list += without_controls(text) + "\n";
  show(list.c_str());
  el_set(edit, EL_REFRESH);
  return CC_NORM;
}

}  // namespace cria::tools
