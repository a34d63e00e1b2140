#include "kernels/encode/iq_books.h"

#include <array>
#include <cassert>

#include "kernels/formats/iq_tables.h"

namespace cria {
namespace {

constexpr std::size_t kLanes = 16;

template <std::size_t Dims, std::size_t Most>
struct PlaneStorage {
  std::size_t n = 0;
  std::array<std::uint64_t, Most> code{};  ///< a byte per value
  alignas(64) float value[Dims * Most], square[Dims * Most];

  void add(std::uint64_t half) {
    assert(n < Most);
    code[n++] = half;
  }
  void fill_up() {
    while (n % kLanes != 0) add(code[n - 1]);
  }
  EntryPlanes planes() {
    for (std::size_t i = 0; i < Dims; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const auto v = static_cast<float>(static_cast<std::int8_t>(code[j] >> (8 * i) & 255));
        value[i * n + j] = v;
        square[i * n + j] = v * v;
      }
    }
    return {n, value, square};
  }
};

template <class Entry, std::size_t N>
struct BookStorage {
  static constexpr std::size_t kHalf = sizeof(Entry) / 2;
  PlaneStorage<2 * kHalf, N> all;
  PlaneStorage<kHalf, EncoderBook::kMaxHalves> first, second;
  PlaneStorage<kHalf, EncoderBook::kMaxSlots> slots;
  std::uint16_t number[N], run[EncoderBook::kMaxHalves + 1], entry[EncoderBook::kMaxSlots];
  EncoderBook book;

  explicit BookStorage(const std::array<Entry, N>& grid) {
    const auto half = [&](std::size_t e, std::size_t which) {
      return grid[e] >> (8 * kHalf * which) & ((std::uint64_t{1} << (8 * kHalf)) - 1);
    };
    const auto add_new = [](auto& list, std::uint64_t code) {
      for (std::size_t j = 0; j < list.n; ++j)
        if (list.code[j] == code) return;
      list.add(code);
    };
    for (std::size_t e = 0; e < N; ++e) {
      number[e] = static_cast<std::uint16_t>(e);
      all.add(grid[e]);
      add_new(first, half(e, 0));
      add_new(second, half(e, 1));
    }
    for (std::size_t r = 0; r < first.n; ++r) {
      run[r] = static_cast<std::uint16_t>(slots.n);
      for (std::size_t e = 0; e < N; ++e)
        if (half(e, 0) == first.code[r]) put(half(e, 1), e);
      while (slots.n % kLanes != 0) put(slots.code[slots.n - 1], entry[slots.n - 1]);
    }
    for (std::size_t r = first.n; r <= EncoderBook::kMaxHalves; ++r)
      run[r] = static_cast<std::uint16_t>(slots.n);
    first.fill_up();
    second.fill_up();
    book = {all.planes(), first.planes(), second.planes(), slots.planes(), number, run, entry};
  }
  void put(std::uint64_t code, std::size_t e) {
    entry[slots.n] = static_cast<std::uint16_t>(e);
    slots.add(code);
  }
};

}  // namespace

const EncoderBook& iq2_xxs_book() {
  static const BookStorage storage(kIq2xxsGrid);
  return storage.book;
}

const EncoderBook& iq2_xs_book() {
  static const BookStorage storage(kIq2xsGrid);
  return storage.book;
}

const EncoderBook& iq2_s_book() {
  static const BookStorage storage(kIq2sGrid);
  return storage.book;
}

const EncoderBook& iq3_xxs_book() {
  static const BookStorage storage(kIq3xxsGrid);
  return storage.book;
}

const EncoderBook& iq3_s_book() {
  static const BookStorage storage(kIq3sGrid);
  return storage.book;
}

const EncoderBook& iq1_book() {
  static const BookStorage storage(kIq1Grid);
  return storage.book;
}

}  // namespace cria
