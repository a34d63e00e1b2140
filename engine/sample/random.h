// Random numbers that belong to a position: counter-based, so that the number of one drawn token
// depends on the seed and on its index in the answer, not on what was drawn before or how often a
// pass was tried.
#pragma once

#include <array>
#include <cstdint>

namespace cria {

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011):
/// a bijection of 128 bits for each key of 64.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// What is random about one token of an answer; each uniform in [0, 1), of 53 bits.
struct TokenRandom {
  double draw;     ///< which token
  double exclude;  ///< whether XTC excludes

  /// Of the index-th token (0, 1, …) that is drawn for an answer.
  static constexpr TokenRandom of(std::uint64_t seed, std::uint64_t index) {
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const auto words = philox({low(index), low(index >> 32), 0, 0}, {low(seed), low(seed >> 32)});
    const auto uniform = [](std::uint32_t a, std::uint32_t b) {
      return static_cast<double>((std::uint64_t{b} << 32 | a) >> 11) * 0x1p-53;
    };
    return {uniform(words[0], words[1]), uniform(words[2], words[3])};
  }
};

}  // namespace cria
