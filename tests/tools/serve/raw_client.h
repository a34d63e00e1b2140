// A client that says exactly the bytes it is told, for tests of the HTTP server.
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

  /// False where the server has closed.
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
  /// Whether the server closes within that time; what comes before is dropped.
  bool is_closed_within(std::chrono::milliseconds time);

 private:
  /// False at the end, or after so long without a byte.
  bool read_some(std::string& out, std::chrono::milliseconds silence);
  int socket_ = -1;
  bool over_ = false;
};

}  // namespace cria::test
