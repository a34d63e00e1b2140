// Looks at the bytes of a request's head before they are parsed: their limits, and what lenient
// parsers let through.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cria::serve {

/// What a request is refused with.
struct Refusal {
  int status = 0;  ///< 0: it is not
  std::string message, code = "bad_request";
  explicit operator bool() const noexcept { return status != 0; }
};

/// Reads on where it stopped, so that a head in many pieces costs no more than one in a piece.
class HeadScanner {
 public:
  static constexpr std::size_t kLine = 8 << 10, kHead = 32 << 10, kFields = 100;

  /// `bytes`: all that has come of the head, from its first byte; more than a head may follow.
  /// Bytes with the empty line, or 0 while that has not come or the head is refused.
  std::size_t scan(std::string_view bytes);
  [[nodiscard]] const Refusal& refusal() const noexcept { return refusal_; }

 private:
  bool refuse(int status, std::string message);
  bool check_line(std::string_view line);
  bool check_unfinished(std::string_view line, std::size_t all);

  Refusal refusal_;
  std::size_t line_ = 0, checked_ = 0,
              lines_ = 0;  // where the line begins, bytes looked at, lines that are whole
};

}  // namespace cria::serve
