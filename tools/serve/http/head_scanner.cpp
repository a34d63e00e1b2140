#include "tools/serve/http/head_scanner.h"

#include <algorithm>

#include "tools/serve/http/error_body.h"

namespace cria::serve {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7F;
}

}  // namespace

bool HeadScanner::refuse(int status, std::string message) {
  refusal_ = {status, std::move(message)};
  return false;
}

/// A whole line without its end.
bool HeadScanner::check_line(std::string_view line) {
  if (lines_ == 0) {
    if (line.size() > kLine)
      return refuse(414, "the request line is too long: expected at most 8 KiB");
  } else {
    if (lines_ > kFields) return refuse(431, "the head has more than 100 fields");
    if (line.front() == ' ' || line.front() == '\t')
      return refuse(400, "a field of the head is folded");
  }
  return true;
}

/// A line whose end has not come: refused as soon as no end can make it good.
bool HeadScanner::check_unfinished(std::string_view line, std::size_t all) {
  if (lines_ == 0 && line.size() > kLine + 1)
    return refuse(414, "the request line is too long: expected at most 8 KiB");
  if (all >= kHead) return refuse(431, "the head is too large: expected at most 32 KiB");
  return true;
}

std::size_t HeadScanner::scan(std::string_view bytes) {
  while (!refusal_) {
    const std::size_t end = std::min(bytes.find('\n', checked_), bytes.size());
    std::string_view line = bytes.substr(line_, end - line_);
    const bool whole = end < bytes.size();
    const std::size_t from = checked_;
    checked_ = end;
    const std::string_view fresh = bytes.substr(from, end - from);
    const auto bad = std::ranges::find_if(fresh, [](char c) { return is_control(c) && c != '\r'; });
    if (bad != fresh.end()) return refuse(400, "the head has a control character");
    // A CR ends its line, so it stands last; one in an earlier piece is found as the last but one
    // of what there is.
    const std::size_t cr = line.find('\r');
    if (cr != std::string_view::npos && cr + 1 != line.size())
      return refuse(400, "the head has a CR that is not followed by LF");
    if (!whole) return check_unfinished(line, bytes.size()), 0;
    if (cr == std::string_view::npos)
      return refuse(400, "a line of the head does not end with CR LF");
    if (end + 1 > kHead) return refuse(431, "the head is too large: expected at most 32 KiB");
    line.remove_suffix(1);
    if (line.empty() && lines_ > 0) return end + 1;
    if (!check_line(line)) return 0;
    ++lines_;
    line_ = checked_ = end + 1;
  }
  return 0;
}

}  // namespace cria::serve
