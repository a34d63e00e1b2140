// One HTTP message as Boost.Beast reads it: the head's grammar, a body by length or in chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/serve/http/exchange.h"
#include "tools/serve/http/head_scanner.h"

namespace cria::serve {

/// A head as it was sent.
struct ParsedHead {
  std::string method, target;
  unsigned version = 11;
  Headers fields;  ///< names in lower case
  std::optional<std::uint64_t> length;
  bool chunked = false;
  bool keep_alive = true;  ///< the connection goes on after the answer

  [[nodiscard]] bool has_body() const noexcept { return chunked || length.value_or(0) > 0; }
};

class MessageParser {
 public:
  MessageParser();
  ~MessageParser();
  MessageParser(const MessageParser&) = delete;
  MessageParser& operator=(const MessageParser&) = delete;

  /// A whole head that HeadScanner let through. The refusal tells what is wrong with it or with
  /// what it says of the body: bodies whose length two fields could tell differently are none.
  Refusal read_head(std::string_view bytes, ParsedHead& head);

  /// Before read_body(): a body of more bytes is refused, 413.
  void limit_body(std::uint64_t bytes);
  /// Takes what it can of `bytes`; what is left is to be given again with more behind it. After the
  /// head.
  Refusal read_body(std::string_view bytes, std::size_t& taken);
  [[nodiscard]] bool done() const;
  [[nodiscard]] std::string& body();

 private:
  struct Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace cria::serve
