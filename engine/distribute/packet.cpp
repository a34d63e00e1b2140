#include "engine/distribute/packet.h"

#include <algorithm>

#include "model/error.h"

namespace cria {
namespace {

constexpr std::size_t kFirst =
    4096;  // bytes that are sent at once: a batch of a few tokens is no longer

}  // namespace

void PacketWriter::send(Ranks& ranks) {
  const std::uint64_t size = bytes_.size();
  std::memcpy(bytes_.data(), &size, sizeof size);
  bytes_.resize(std::max<std::size_t>(size, kFirst));
  ranks.broadcast(std::span(bytes_).first(kFirst), Timeout::Endless);
  if (size > kFirst) ranks.broadcast(std::span(bytes_).subspan(kFirst), Timeout::Usual);
}

RankTask PacketReader::receive(Ranks& ranks) {
  bytes_.resize(kFirst);
  ranks.broadcast(bytes_, Timeout::Endless);
  at_ = 0;
  const auto size = get<std::uint64_t>();
  bytes_.resize(size);
  if (size > kFirst) ranks.broadcast(std::span(bytes_).subspan(kFirst), Timeout::Usual);
  return get<RankTask>();
}

void PacketReader::fail() {
  throw Error("rank 0 is another build of the program: it says less than expected");
}

}  // namespace cria
