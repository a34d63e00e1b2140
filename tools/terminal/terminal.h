// The process and its terminal: signals, messages on stderr, stdout and files that commands write,
// progress of long work and how it resumes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/error.h"
#include "model/file/binary_file.h"

namespace cria::tools {

bool is_terminal(std::FILE* stream);

/// True if the stream takes escape sequences: a terminal that is not dumb.
bool takes_sequences(std::FILE* stream);

enum class Style { Bold, Dim, Prompt };
/// True if styles are visible: the stream takes sequences and NO_COLOR is not set.
bool shows_styles(std::FILE* stream);
/// The text in a style, where that can be seen.
std::string styled(std::FILE* stream, Style style, std::string_view text);

/// Untrusted text (a model's, a file's) without control characters:
/// "^[" and "\u009b" stand for them. Newlines and tabs stay.
std::string without_controls(std::string_view text);
/// The same for DEL and C1 (U+007F to U+009F), which JSON does not escape.
std::string without_del_and_c1(std::string_view text);
/// Untrusted text for a stream: without controls on a terminal, else unchanged.
std::string for_stream(std::FILE* stream, std::string_view text);

std::string human_bytes(std::uint64_t bytes);   ///< "7.4 MiB"
std::string human_count(std::uint64_t count);   ///< "7.34 M"
std::string fixed(double value, int decimals);  ///< "3.14"
std::string significant(double value);          ///< "0.00123", "1.7e-08": four digits that count

/// One line on stderr; where that is a terminal, broken at words and without control characters.
void print_line(std::string_view text);
/// "cria: error: …", "cria: warning: …", "cria: note: …".
void print_error(std::string_view text);
void print_warning(std::string_view text);
void print_note(std::string_view text);

/// The text with its lines broken at words and without control characters where stdout is a
/// terminal, as it is elsewhere. Lines that fit stay as they are.
void write_text(std::string_view text);

inline constexpr int kOutputClosedExit = 141;  ///< as shells report a program that SIGPIPE ended

/// stdout was closed: its reader (`| head`) has read enough. The program ends silently with
/// kOutputClosedExit.
struct OutputClosed {};

/// stdout cannot be written for another reason (a full disk): the command ends.
struct OutputError : Error {
  using Error::Error;
};

/// Bytes to stdout; they stay in a buffer until it is large or flushed. To a terminal without DEL
/// and C1 controls; others are the caller's business, whose text may have styles. Throw
/// OutputClosed or OutputError, and Interrupted where stdout takes nothing and a signal says to
/// end.
void write_stdout(std::string_view bytes);
void flush_stdout();

/// Throws OutputError if stdout is a terminal; call it before writing binary data.
void refuse_terminal();

/// A file is replaced whole or not at all (cria::OutputFile); what is not a regular file
/// (/dev/stdout, a pipe) is written directly, "-" to stdout.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  ///< throws Error
  void write(std::string_view bytes);            ///< throws Error
  void finish();                                 ///< throws Error

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::optional<cria::OutputFile> file_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream_{
      nullptr, &std::fclose};  // when writing directly, but to stdout
};

/// The contents of a progress line.
struct ProgressState {
  std::string_view what, unit, note;  ///< "reading", "tokens", a running result
  double share = 0;                   ///< done, 0 to 1
  double per_second = 0;              ///< units per second; bytes if the unit is "bytes"
  long seconds_left = 0;
};

/// Returns the line in at most `columns`. The bar shrinks first. Then the speed, the note, the time
/// left and the bar are dropped. The amount done and its share stay longest.
std::string progress_line(const ProgressState& state, std::size_t columns);

/// A bar on stderr with speed and time left. It says nothing off a terminal, nor about work of less
/// than two seconds, and measures the terminal at every update.
class Progress {
 public:
  /// what: "reading"; unit: "tokens", "bytes".
  Progress(std::string_view what, std::string_view unit, std::uint64_t total);
  ~Progress();  ///< wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// note: shown at the end, a running result.
  void update(std::uint64_t done, std::string_view note = {});
  /// Changes the total, where it was the most that work could take.
  void expect(std::uint64_t total) { total_ = total; }
  /// Wipes the bar until the next update, so that something else can be said on stderr.
  void wipe();

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_, unit_;
  std::uint64_t total_;
  bool enabled_, started_ = false, shown_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

/// state: the file of --state; "": none, the work is lost.
std::string stopped_text(const std::string& state, std::size_t done, std::size_t windows);
std::string resumed_text(const std::string& state, std::size_t done, std::size_t windows);

/// Thrown to leave a subcommand after such a signal; the program then exits with
/// interrupted_exit().
struct Interrupted {};

/// From now on SIGINT, SIGTERM and SIGHUP set the flag that is returned instead of ending the
/// program. Code that handles a Ctrl-C and continues must clear it.
std::atomic<bool>& catch_interrupts();

/// The exit code of shells for the signal: 128 + its number (130: Ctrl-C).
int interrupted_exit();
/// True after a signal other than Ctrl-C: the program must end, and the flag stays set.
bool terminated();

/// Wait until the descriptor can be read or written without blocking; false if it cannot and the
/// flag is or gets set meanwhile, for reading also if it could. (EINTR is not enough: another
/// thread may get the signal.) on_continue: called after the process was stopped and continued,
/// since another program may have used the terminal.
bool wait_readable(int descriptor, const std::function<void()>& on_continue = {});
bool wait_writable(int descriptor);

/// Like Ctrl-Z on a terminal: stops this process and its group; returns when it continues.
void stop_process();

/// To be called first. Opens what of stdin, stdout and stderr is closed, so that no file of the
/// program takes its place (reading and writing there still fails). SIGPIPE and SIGXFSZ become
/// errors of the write. SIGBUS in a mapped file that shrank, and uncaught exceptions (out of memory
/// in a library), end the program with one line and exit code 1.
void prepare_process();

/// Raises the limit of open files, as far as allowed; the usual limit is 1024.
void allow_descriptors(std::size_t wanted);

/// The sequence that exit_now() writes to reset the terminal's mode, or "". Not copied.
void set_last_words(const char* sequence);

/// Ends the process at once with the terminal as it was found; may be called from signal handlers.
[[noreturn]] void exit_now(int code);

}  // namespace cria::tools
