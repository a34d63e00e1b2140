// Progress of long work on stderr, and how it resumes after an interruption.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cria::tools {

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

}  // namespace cria::tools
