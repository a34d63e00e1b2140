// A client that sends exact bytes, for tests of the HTTP server.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace cria::test {

class RawClient {
 public:
  /// Connects to 127.0.0.1. receive_buffer: bytes that the system takes for a reader that does not
  /// read; 0: as usual.
  explicit RawClient(std::uint16_t port, int receive_buffer = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// Sends bytes. Returns false if the server has closed the connection.
  bool send(std::string_view bytes);
  void end_sending();
  void close();
  /// Closes so that the server gets a reset.
  void reset();

  /// Everything until the server closes, or nothing comes for so long.
  std::string read_all(std::chrono::milliseconds silence = std::chrono::seconds(60));
  /// Until what has come ends with, or holds, `text`; what has come by then.
  std::string read_until(std::string_view text,
                         std::chrono::milliseconds silence = std::chrono::seconds(60));
  /// True if the server closes within `time`. Discards bytes that come before.
  bool is_closed_within(std::chrono::milliseconds time);

 private:
  /// False at the end, or after so long without a byte.
  bool read_some(std::string& out, std::chrono::milliseconds silence);
  int socket_ = -1;
  bool over_ = false;
};

}  // namespace cria::test
