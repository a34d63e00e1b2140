#include "tools/terminal/terminal.h"

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "model/error.h"
#include "model/plural.h"
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

namespace {

constexpr std::size_t kPendingBytes = 1 << 16;

std::string pending_output;

/// Bytes that a writable pipe or terminal takes without blocking; files take all.
std::size_t bytes_at_once() {
  static const std::size_t bytes = [] {
    struct stat info = {};
    return fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode) ? kPendingBytes
                                                                     : std::size_t{PIPE_BUF};
  }();
  return bytes;
}

void write_to_stdout(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!wait_writable(STDOUT_FILENO)) throw Interrupted();
    const ssize_t n = write(STDOUT_FILENO, bytes.data(), std::min(bytes.size(), bytes_at_once()));
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EPIPE) {
      throw OutputClosed();
    } else if (errno != EINTR && errno != EAGAIN) {
      throw OutputError("stdout", std::string("cannot be written: ") + std::strerror(errno));
    }
  }
}

}  // namespace

void write_stdout(std::string_view bytes) {
  pending_output += bytes;
  if (pending_output.size() >= kPendingBytes) flush_stdout();
}

void refuse_terminal() {
  if (is_terminal(stdout))
    throw OutputError(
        "stdout", "refusing to write binary data to the terminal; redirect it to a file or a pipe");
}

void flush_stdout() {
  std::string bytes = std::exchange(pending_output, {});
  if (is_terminal(stdout)) {
    if (bytes.ends_with('\xC2')) {  // the first half of a character
      bytes.pop_back();
      pending_output = '\xC2';
    }
    bytes = without_del_and_c1(bytes);
  }
  write_to_stdout(bytes);
}

namespace {

bool is_written_directly(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  return fs::exists(path, error) && !fs::is_regular_file(path, error) &&
         !fs::is_directory(path, error);
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path) {
  if (path == "-") return;
  if (is_written_directly(path)) {
    stream_.reset(std::fopen(path.c_str(), "wb"));
    if (stream_ == nullptr) fail();
  } else {
    file_.emplace(path);
  }
}

void OutputFile::fail() const {
  if (errno == EPIPE) throw OutputClosed();
  throw Error(path_, std::string("cannot write: ") + std::strerror(errno));
}

void OutputFile::write(std::string_view bytes) {
  if (file_) return file_->write(bytes);
  if (stream_ == nullptr) return write_stdout(bytes);
  if (std::fwrite(bytes.data(), 1, bytes.size(), stream_.get()) != bytes.size()) fail();
}

void OutputFile::finish() {
  if (file_) return file_->finish();
  if (stream_ == nullptr) return flush_stdout();
  if (std::fflush(stream_.get()) != 0) fail();
}

namespace {

constexpr std::size_t kBar = 24, kSmallestBar = 8;

std::string bar(double share, std::size_t width) {
  const auto filled = std::min(width, static_cast<std::size_t>(share * static_cast<double>(width)));
  return " [" + std::string(filled, '#') + std::string(width - filled, ' ') + "]";
}

std::string speed(const ProgressState& state) {
  const auto rate = static_cast<std::uint64_t>(state.per_second);
  return state.unit == "bytes" ? human_bytes(rate) + "/s"
                               : human_count(rate) + " " + std::string(state.unit) + "/s";
}

std::string time_left(long seconds) {
  const std::string rest = std::to_string(seconds % 60);
  return std::to_string(seconds / 60) + ":" + std::string(rest.size() < 2, '0') + rest + " left";
}

}  // namespace

std::string progress_line(const ProgressState& state, std::size_t columns) {
  const std::string what(state.what);
  const std::string share = " " + fixed(100 * state.share, 0) + " %";
  const std::string rate = "  " + speed(state), left = "  " + time_left(state.seconds_left);
  const std::string note = state.note.empty() ? "" : "  " + std::string(state.note);
  const std::size_t frame = 3;  // a blank and the brackets
  for (const std::string& rest : {rate + left + note, left + note, left, std::string()}) {
    const std::size_t used = display_width(what + share + rest) + frame;
    if (used + kSmallestBar <= columns)
      return what + bar(state.share, std::min(kBar, columns - used)) + share + rest;
  }
  if (const std::string line = what + share + left; display_width(line) <= columns) return line;
  return shortened(what + share, columns);
}

Progress::Progress(std::string_view what, std::string_view unit, std::uint64_t total)
    : what_(without_controls(what)),
      unit_(unit),
      total_(total),
      enabled_(takes_sequences(stderr)) {}

Progress::~Progress() { wipe(); }

void Progress::wipe() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void Progress::update(std::uint64_t done, std::string_view note) {
  using Seconds = std::chrono::duration<double>;
  const auto now = Clock::now();
  if (!enabled_ || done == 0 || total_ == 0 || Seconds(now - last_).count() < 0.1) return;
  const double spent = Seconds(now - start_).count();
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  if (!started_ && (spent < 0.5 || spent / share < 2)) return;
  last_ = now;
  started_ = shown_ = true;
  const ProgressState state = {.what = what_,
                               .unit = unit_,
                               .note = note,
                               .share = share,
                               .per_second = static_cast<double>(done) / spent,
                               .seconds_left = std::lround(spent / share - spent)};
  const std::size_t columns = terminal_columns(stderr);
  // Not into the last column, where some terminals begin a new line.
  const std::string line = progress_line(state, std::max<std::size_t>(columns, 2) - 1);
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
}

std::string stopped_text(const std::string& state, std::size_t done, std::size_t windows) {
  const std::string far =
      "stopped after " + std::to_string(done) + " of " + counted(windows, "window") + "; ";
  return far + (state.empty() ? "to be able to resume next time, use --state FILE"
                              : "run the same command again to resume from " + state);
}

std::string resumed_text(const std::string& state, std::size_t done, std::size_t windows) {
  return "resuming after " + std::to_string(done) + " of " + counted(windows, "window") + ", by " +
         state;
}

}  // namespace cria::tools
