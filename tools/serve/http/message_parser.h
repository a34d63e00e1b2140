// Bytes of a connection to HTTP requests: headers, the target, the body.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/serve/http/exchange.h"

namespace cria::serve {

/// The refusal of a request.
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

struct Target {
  std::string path;   ///< percent-decoded; "*" for OPTIONS *
  std::string query;  ///< as sent
  std::string host;   ///< with port, of a target that names one; else ""
};

/// nullopt for an invalid target: no path, a percent sign without two digits, an encoded NUL.
std::optional<Target> parse_target(std::string_view text);

/// Returns the value of a member of a target's query, percent-decoded; "" if it is not there.
std::string query_value(std::string_view query, std::string_view name);

/// A head as it was sent.
struct ParsedHead {
  std::string method, target;
  unsigned version = 11;
  Headers fields;  ///< names in lower case
  std::optional<std::uint64_t> length;
  bool chunked = false;
  bool keep_alive = true;  ///< the connection stays open after the answer

  [[nodiscard]] bool has_body() const noexcept { return chunked || length.value_or(0) > 0; }
};

class MessageParser {
 public:
  MessageParser();
  ~MessageParser();
  MessageParser(const MessageParser&) = delete;
  MessageParser& operator=(const MessageParser&) = delete;

  /// Parses complete headers that HeadScanner accepted. The refusal names what is wrong with them;
  /// two headers must not give different lengths of the body.
  Refusal read_head(std::string_view bytes, ParsedHead& head);

  /// Before read_body(): a body of more bytes is refused, 413.
  void limit_body(std::uint64_t bytes);
  /// Consumes what it can of `bytes`; give the rest again with more bytes. Call it after the
  /// headers.
  Refusal read_body(std::string_view bytes, std::size_t& taken);
  [[nodiscard]] bool done() const;
  [[nodiscard]] std::string& body();

 private:
  struct Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace cria::serve
