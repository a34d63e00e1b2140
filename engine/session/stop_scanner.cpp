#include "engine/session/stop_scanner.h"

#include <algorithm>
#include <utility>

namespace cria {

StopScanner::StopScanner(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
  std::sort(stops_.begin(), stops_.end(),
            [](const auto& a, const auto& b) { return a.size() > b.size(); });
}

std::string StopScanner::push(std::string_view piece) {
  if (!found_.empty()) return {};
  pending_ += piece;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = pending_.find(stop);
    if (at >= first) continue;
    first = at;
    found_ = stop;
  }
  std::string clear = pending_.substr(0, found_.empty() ? pending_.size() - held_back() : first);
  pending_.erase(0, found_.empty() ? clear.size() : std::string::npos);
  return clear;
}

std::string StopScanner::finish() { return std::exchange(pending_, {}); }

// Bytes at the end of pending_ that may be the beginning of a stop text.
std::size_t StopScanner::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, pending_.size()); n > longest; --n) {
      if (pending_.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

}  // namespace cria
