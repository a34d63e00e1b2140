#include "tools/terminal.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>

namespace cria::tools {

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) != 0; }

std::string styled(std::FILE* stream, Style style, std::string_view text) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool plain = !is_terminal(stream) || (no_color != nullptr && *no_color != '\0') || term == nullptr ||
                     std::string_view(term) == "dumb";
  if (plain) return std::string(text);
  constexpr std::string_view kCodes[] = {"\033[1m", "\033[2m", "\033[1;32m"};
  return std::string(kCodes[static_cast<std::size_t>(style)]).append(text).append("\033[0m");
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    out += control ? std::string{'^', static_cast<char>(c ^ 0x40)} : std::string(1, c);
  }
  return out;
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

Progress::Progress(std::string_view what, std::string_view unit, std::uint64_t total)
    : what_(what), unit_(unit), total_(total), enabled_(is_terminal(stderr)) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::update(std::uint64_t done, std::string_view note) {
  using Seconds = std::chrono::duration<double>;
  const auto now = Clock::now();
  if (!enabled_ || done == 0 || total_ == 0 || Seconds(now - last_).count() < 0.1) return;
  const double spent = Seconds(now - start_).count();
  const double share = static_cast<double>(done) / static_cast<double>(total_);
  if (!shown_ && (spent < 0.5 || spent / share < 2)) return;
  last_ = now;
  shown_ = true;
  constexpr std::size_t kWidth = 24;
  const auto filled = static_cast<std::size_t>(share * kWidth);
  const auto left = std::lround(spent / share - spent);
  const std::string rate = human_count(static_cast<std::uint64_t>(static_cast<double>(done) / spent));
  std::fprintf(stderr, "\r\033[K%s [%s%s] %2.0f %%  %s %s/s  %ld:%02ld left%s%.*s", what_.c_str(),
               std::string(filled, '#').c_str(), std::string(kWidth - filled, ' ').c_str(), 100 * share,
               rate.c_str(), unit_.c_str(), left / 60, left % 60, note.empty() ? "" : "  ",
               static_cast<int>(note.size()), note.data());
  std::fflush(stderr);
}

}  // namespace cria::tools
