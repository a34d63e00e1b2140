#include "tests/tools/serve/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace cria::test {

using std::chrono::milliseconds;

RawClient::RawClient(std::uint16_t port, int receive_buffer)
    : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (receive_buffer > 0)
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket_);
    throw std::runtime_error("no server at port " + std::to_string(port));
  }
}

RawClient::~RawClient() { close(); }

void RawClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void RawClient::reset() {
  const linger at_once = {1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void RawClient::end_sending() { shutdown(socket_, SHUT_WR); }

bool RawClient::read_some(std::string& out, milliseconds silence) {
  pollfd waiting{socket_, POLLIN, 0};
  if (over_ || poll(&waiting, 1, static_cast<int>(silence.count())) <= 0) return false;
  char buffer[65536];
  const ssize_t n = recv(socket_, buffer, sizeof buffer, 0);
  if (n > 0) out.append(buffer, static_cast<std::size_t>(n));
  over_ = n <= 0;
  return n > 0;
}

std::string RawClient::read_all(milliseconds silence) {
  std::string out;
  while (read_some(out, silence)) continue;
  return out;
}

std::string RawClient::read_until(std::string_view text, milliseconds silence) {
  std::string out;
  while (out.find(text) == std::string::npos && read_some(out, silence)) continue;
  return out;
}

bool RawClient::is_closed_within(milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  std::string dropped;
  while (!over_ && std::chrono::steady_clock::now() < end)
    read_some(dropped,
              std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()));
  return over_;
}

}  // namespace cria::test
