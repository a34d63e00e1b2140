#include "kernels/encode_iq_books.h"

#include <array>
#include <cstdint>

#include "kernels/iq_tables.h"

namespace cria {
namespace {

template <class Entry, std::size_t N>
struct BookStorage {
  static constexpr std::size_t kDims = sizeof(Entry);
  alignas(64) float value[kDims * N], square[kDims * N], sum[N] = {}, square_sum[N] = {};
  EncoderBook book{N, kDims, value, square, sum, square_sum};

  explicit BookStorage(const std::array<Entry, N>& grid) {
    for (std::size_t i = 0; i < kDims; ++i) {
      for (std::size_t e = 0; e < N; ++e) {
        const auto v = static_cast<float>(static_cast<std::int8_t>(grid[e] >> (8 * i) & 255));
        value[i * N + e] = v;
        square[i * N + e] = v * v;
        sum[e] += v;
        square_sum[e] += v * v;
      }
    }
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
