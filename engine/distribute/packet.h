// Packets from rank 0 to the others: numbers and strings in this machine's representation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/ranks/ranks.h"
#include "model/error.h"

namespace cria {

/// Bytes of a packet's first message: enough for a small batch.
inline constexpr std::size_t kFirstBytes = 4096;

enum class RankTask : std::uint32_t {
  End,
  SetTimeout,
  MeasureRates,
  TellMemory,
  LoadModel,
  DropModel,
  OpenEngine,
  CloseEngine,
  Forward,
  Logits,
  CopyPage
};

/// Reuses its memory for the next packet.
class PacketWriter {
 public:
  void begin(RankTask task) {
    bytes_.assign(sizeof(std::uint64_t), std::byte{});
    put(task);
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { add(&value, sizeof value); }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put_all(std::span<const T> values) {
    put(std::uint64_t{values.size()});
    add(values.data(), values.size_bytes());
  }
  void put_text(const std::string& text) { put_all(std::span<const char>(text)); }

  /// Sends to all ranks, which receive().
  void send(Ranks& ranks) {
    const std::uint64_t size = bytes_.size();
    std::memcpy(bytes_.data(), &size, sizeof size);
    bytes_.resize(std::max<std::size_t>(size, kFirstBytes));
    ranks.broadcast(std::span(bytes_).first(kFirstBytes), Timeout::Endless);
    if (size > kFirstBytes) ranks.broadcast(std::span(bytes_).subspan(kFirstBytes), Timeout::Usual);
  }

 private:
  void add(const void* data, std::size_t size) {
    const auto* const from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  std::vector<std::byte> bytes_;  // the first 8 are their number
};

/// Reads values in the order in which they were written. Throws Error beyond the end: another build
/// of the same version may write other packets.
class PacketReader {
 public:
  /// Waits for rank 0's next packet without a timeout.
  RankTask receive(Ranks& ranks) {
    bytes_.resize(kFirstBytes);
    ranks.broadcast(bytes_, Timeout::Endless);
    at_ = 0;
    const auto size = get<std::uint64_t>();
    bytes_.resize(size);
    if (size > kFirstBytes) ranks.broadcast(std::span(bytes_).subspan(kFirstBytes), Timeout::Usual);
    return get<RankTask>();
  }

  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value{};
    take(&value, sizeof value);
    return value;
  }
  template <class T>
  void get_all(std::vector<T>& values) {
    const auto n = get<std::uint64_t>();
    if (n > (bytes_.size() - at_) / sizeof(T)) fail();
    values.resize(n);
    take(values.data(), values.size() * sizeof(T));
  }
  std::string get_text() {
    std::vector<char> text;
    get_all(text);
    return {text.begin(), text.end()};
  }

 private:
  void take(void* to, std::size_t size) {
    if (size > bytes_.size() - at_) fail();
    if (size != 0) std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }
  [[noreturn]] static void fail() {
    throw Error("rank 0 is another build of the program: its packet is too short");
  }

  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace cria
