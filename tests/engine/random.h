// Random numbers for tests: xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number
// generators"), its state filled by splitmix64.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace cria::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      std::uint64_t z = seed += 0x9E3779B97F4A7C15;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
      z = (z ^ z >> 27) * 0x94D049BB133111EB;
      word = z ^ z >> 31;
    }
  }
  std::uint64_t next() {
    auto& s = state_;
    const std::uint64_t result = std::rotl(s[1] * 5, 7) * 9;
    const std::uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = std::rotl(s[3], 45);
    return result;
  }
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace cria::test
