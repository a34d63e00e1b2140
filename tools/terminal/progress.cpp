#include "tools/terminal/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/plural.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/wrap.h"

namespace cria::tools {

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
