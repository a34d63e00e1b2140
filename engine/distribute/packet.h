// What rank 0 tells the others: numbers and texts, one after the other, as this machine has them in
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/ranks/ranks.h"

namespace cria {

/// What is to be done.
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

/// Its memory is used again by the next packet.
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

  /// To all ranks; the others receive().
  void send(Ranks& ranks);

 private:
  void add(const void* data, std::size_t size) {
    const auto* const from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  std::vector<std::byte> bytes_;  // begins with their number
};

/// Reads in the order in which it was written. Throws Error for what is not in the packet: a build
/// of the same version may write others.
class PacketReader {
 public:
  /// Waits for rank 0's next packet, however long that takes.
  RankTask receive(Ranks& ranks);

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
  [[noreturn]] static void fail();

  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace cria
