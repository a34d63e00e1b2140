// Helpers of the kernel tests: comparison of every instruction set with the scalar one, odd
// alignments, repeatable random numbers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <vector>

#include "kernels/kernels.h"

namespace cria {

/// Every type that a file may name, by id.
inline const std::vector<DType>& all_types() {
  static const std::vector<DType> all = [] {
    std::vector<DType> types;
    for (std::uint32_t id = 0; id < 0x10000; ++id)
      if (const DTypeInfo* const info = find_dtype(id)) types.push_back(info->id);
    return types;
  }();
  return all;
}
/// The types whose class satisfies a predicate, by id.
template <class Predicate>
std::vector<DType> types_where(Predicate predicate) {
  std::vector<DType> types;
  std::ranges::copy_if(all_types(), std::back_inserter(types),
                       [&](DType type) { return predicate(dtype_info(type).dot); });
  return types;
}

inline const KernelSet& scalar_kernels() { return *available_kernels().back(); }

/// The types that can be encoded, by id.
inline std::vector<DType> encoded_types() {
  std::vector<DType> types;
  std::ranges::copy_if(all_types(), std::back_inserter(types),
                       [](DType type) { return scalar_kernels().encode(type) != nullptr; });
  return types;
}

/// A set that a test emulates, because it cannot run here; compared with the scalar one like the
/// others, while there is one.
inline const KernelSet*& emulated_kernels() {
  static const KernelSet* set = nullptr;
  return set;
}
/// The sets that are tested.
inline std::vector<const KernelSet*> tested_kernels() {
  if (emulated_kernels() != nullptr) return {emulated_kernels()};
  const auto sets = available_kernels();
  return {sets.begin(), sets.end()};
}

/// Bytes that start `offset` elements after a 64-byte boundary, with
/// nothing usable after the end (under ASan).
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t n, std::size_t offset = 0)
      : memory_(n + offset + 64 / sizeof(T)), n_(n) {
    auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    first_ = (64 - address % 64) % 64 / sizeof(T) + offset;
    memory_.resize(first_ + n);
  }
  T* data() { return memory_.data() + first_; }
  const T* data() const { return memory_.data() + first_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + n_; }
  [[nodiscard]] std::size_t size() const { return n_; }
  /// Equal bit for bit (NaN equals NaN of the same bits, 0 is not -0).
  friend bool operator==(const Buffer& a, const Buffer& b) {
    return a.n_ == b.n_ && std::memcmp(a.data(), b.data(), a.n_ * sizeof(T)) == 0;
  }

 private:
  std::vector<T> memory_;
  std::size_t n_, first_ = 0;
};

/// Scratch of exactly this size, reused by the next call of the same size: sanitizers are slow to
/// allocate megabytes. It holds the remains of the previous kernel.
inline Buffer<std::byte>& kept_buffer(std::size_t bytes) {
  static std::map<std::size_t, Buffer<std::byte>> by_size;
  return by_size.try_emplace(bytes, bytes).first->second;
}

/// Normal numbers from a seed, the same on every machine as far as the tests need.
inline void fill_random(float* p, std::size_t n, std::uint32_t seed, float deviation = 1.0F) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  for (std::size_t i = 0; i < n; ++i) p[i] = normal(bits);
}

template <class T>
Buffer<T> copy_at(const Buffer<T>& from, std::size_t offset) {
  Buffer<T> to(from.size(), offset);
  std::memcpy(to.data(), from.data(), from.size() * sizeof(T));
  return to;
}

}  // namespace cria
