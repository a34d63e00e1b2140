// What is shown to a person: colour and progress only on a terminal, numbers in units that can be read.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace cria::tools {

bool is_terminal(std::FILE* stream);

enum class Style { Bold, Dim, Prompt };
/// The text in a style; as it is where the stream is no terminal, NO_COLOR is set or the terminal is dumb.
std::string styled(std::FILE* stream, Style style, std::string_view text);

/// Text of a stranger (a model, a file) without control characters that could drive the terminal; newlines
/// and tabs stay.
std::string without_controls(std::string_view text);

std::string human_bytes(std::uint64_t bytes);   ///< "7.4 MiB"
std::string human_count(std::uint64_t count);   ///< "7.34 M"
std::string fixed(double value, int decimals);  ///< "3.14"
std::string significant(double value);          ///< "0.00123", "1.7e-08": four digits that count

/// A bar on stderr with rate and time left; says nothing off a terminal, nor about work of less than two
/// seconds.
class Progress {
 public:
  /// what: "reading"; unit: "tokens".
  Progress(std::string_view what, std::string_view unit, std::uint64_t total);
  ~Progress();  ///< wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// note: shown at the end, a running result.
  void update(std::uint64_t done, std::string_view note = {});

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_, unit_;
  std::uint64_t total_;
  bool enabled_, shown_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

}  // namespace cria::tools
