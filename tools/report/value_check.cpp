#include "tools/report/value_check.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_reduce.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/plural.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

constexpr std::uint64_t kChunk = std::uint64_t{1} << 16;  // values, whole blocks of any type
constexpr std::uint64_t kChunksPerLook = 64;              // between looks at the clock
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

std::uint64_t value_count(const TensorView& tensor) { return tensor.rows() * tensor.cols(); }

std::vector<float> chunk_values(const TensorView& tensor, std::uint64_t chunk) {
  const DTypeInfo& type = dtype_info(tensor.dtype);
  const std::uint64_t begin = chunk * kChunk, unit = tensor.cols() * type.interleaved_rows;
  std::vector<float> values(std::min(kChunk, value_count(tensor) - begin));
  if (type.header_bytes == 0 &&
      unit == tensor.cols()) {  // rows follow one another as if they were one
    type.dequantize(tensor.data + type.row_bytes(begin), values.data(), values.size());
    return values;
  }
  std::vector<float> rows(unit);
  for (std::uint64_t at = begin, end = begin + values.size(); at < end; at += unit - at % unit) {
    type.dequantize_rows(tensor.data + at / unit * type.interleaved_rows * tensor.row_bytes(),
                         rows.data(), type.interleaved_rows, tensor.cols());
    const std::uint64_t n = std::min(unit - at % unit, end - at);
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(at % unit), n,
                values.begin() + static_cast<std::ptrdiff_t>(at - begin));
  }
  return values;
}

struct Sums {
  std::uint64_t zeros = 0, nans = 0, infinities = 0, first_bad = kNever;
  float min = std::numeric_limits<float>::infinity(), max = -std::numeric_limits<float>::infinity();
  double sum = 0, squares = 0;

  void look(std::span<const float> values, std::uint64_t index) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float value = values[i];
      if (!std::isfinite(value)) {
        ++(std::isnan(value) ? nans : infinities);
        first_bad = std::min(first_bad, index + i);
        continue;
      }
      zeros += value == 0 ? 1U : 0U;
      min = std::min(min, value);
      max = std::max(max, value);
      sum += value;
      squares += double{value} * value;
    }
  }
  [[nodiscard]] Sums join(const Sums& other) const {
    return {zeros + other.zeros,
            nans + other.nans,
            infinities + other.infinities,
            std::min(first_bad, other.first_bad),
            std::min(min, other.min),
            std::max(max, other.max),
            sum + other.sum,
            squares + other.squares};
  }
};

// Over the chunks of n values, in an order that the number of cores does not change.
template <class T, class Look, class OnChunks>
T reduce_chunks(std::uint64_t n, Look&& look, OnChunks&& on_chunks) {
  const std::uint64_t chunks = (n + kChunk - 1) / kChunk;
  T total;
  for (std::uint64_t at = 0; at < chunks; at += kChunksPerLook) {
    const tbb::blocked_range<std::uint64_t> range(at, std::min(at + kChunksPerLook, chunks), 1);
    const T part = tbb::parallel_deterministic_reduce(
        range, T{},
        [&](const tbb::blocked_range<std::uint64_t>& some, T sum) {
          for (std::uint64_t chunk = some.begin(); chunk != some.end(); ++chunk) look(sum, chunk);
          return sum;
        },
        [](const T& a, const T& b) { return a.join(b); });
    total = total.join(part);
    on_chunks(range.end());
  }
  return total;
}

TensorValues scan(const TensorView& tensor, Progress& progress, std::uint64_t bytes_before) {
  TensorValues result{.name = std::string(tensor.name), .dtype = tensor.dtype};
  result.values = value_count(tensor);
  const Sums sums = reduce_chunks<Sums>(
      result.values,
      [&](Sums& sum, std::uint64_t chunk) {
        sum.look(chunk_values(tensor, chunk), chunk * kChunk);
      },
      [&](std::uint64_t chunks) {
        const auto done = static_cast<double>(std::min(chunks * kChunk, result.values));
        progress.update(bytes_before +
                        static_cast<std::uint64_t>(done / static_cast<double>(result.values) *
                                                   static_cast<double>(tensor.bytes)));
      });
  result.zeros = sums.zeros;
  result.nans = sums.nans;
  result.infinities = sums.infinities;
  result.first_bad = sums.first_bad == kNever ? 0 : sums.first_bad;
  const std::uint64_t finite = result.values - sums.nans - sums.infinities;
  if (finite == 0) return result;
  result.min = sums.min;
  result.max = sums.max;
  result.mean = sums.sum / static_cast<double>(finite);
  result.rms = std::sqrt(sums.squares / static_cast<double>(finite));
  return result;
}

struct DifferenceSums {
  std::uint64_t different = 0, not_finite = 0;
  double largest = 0, squares = 0;

  void look(std::span<const float> a, std::span<const float> b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      ++different;
      const double difference = std::abs(double{a[i]} - double{b[i]});
      if (!std::isfinite(difference)) {
        ++not_finite;
        continue;
      }
      largest = std::max(largest, difference);
      squares += difference * difference;
    }
  }
  [[nodiscard]] DifferenceSums join(const DifferenceSums& other) const {
    return {different + other.different, not_finite + other.not_finite,
            std::max(largest, other.largest), squares + other.squares};
  }
};

}  // namespace

std::vector<TensorValues> check_values(const GgufFile& file) {
  Progress progress("checking", "bytes", file.file_bytes());
  std::vector<TensorValues> all;
  std::uint64_t bytes = 0;
  for (const TensorView& tensor : file.tensors()) {
    if (tensor.data == nullptr) {
      all.push_back({.name = std::string(tensor.name), .dtype = tensor.dtype, .missing = true});
      continue;
    }
    all.push_back(scan(tensor, progress, bytes));
    bytes += tensor.bytes;
  }
  return all;
}

ValueDifference compare_values(const TensorView& a, const TensorView& b) {
  const std::uint64_t n = value_count(a);
  const DifferenceSums sums = reduce_chunks<DifferenceSums>(
      n,
      [&](DifferenceSums& sum, std::uint64_t chunk) {
        sum.look(chunk_values(a, chunk), chunk_values(b, chunk));
      },
      [](std::uint64_t) {});
  const auto finite = static_cast<double>(n - sums.not_finite);
  return {.values = n,
          .different = sums.different,
          .not_finite = sums.not_finite,
          .largest = sums.largest,
          .rmse = finite == 0 ? 0 : std::sqrt(sums.squares / finite)};
}

Json check_json(const std::vector<TensorValues>& all) {
  Json list = Json::array();
  for (const TensorValues& tensor : all)
    if (!tensor.good())
      list.push_back({{"name", tensor.name},
                      {"nans", tensor.nans},
                      {"infinities", tensor.infinities},
                      {"first", tensor.missing ? Json() : Json(tensor.first_bad)},
                      {"missing", tensor.missing}});
  return list;
}

Json statistics_json(const std::vector<TensorValues>& all) {
  Json list = Json::array();
  for (const TensorValues& tensor : all)
    list.push_back({{"name", tensor.name},
                    {"type", name(tensor.dtype)},
                    {"values", tensor.values},
                    {"zeros", tensor.zeros},
                    {"min", tensor.min},
                    {"max", tensor.max},
                    {"mean", tensor.mean},
                    {"rms", tensor.rms}});
  return list;
}

std::string check_text(const std::vector<TensorValues>& all) {
  Table table({"tensor", "type", ">min", ">max", ">mean", ">rms", ">zeros"});
  std::string bad;
  std::size_t good = 0;
  for (const TensorValues& tensor : all) {
    if (!tensor.missing)
      table.add(
          {without_controls(tensor.name), std::string(name(tensor.dtype)), significant(tensor.min),
           significant(tensor.max), significant(tensor.mean), significant(tensor.rms),
           fixed(100 * static_cast<double>(tensor.zeros) / static_cast<double>(tensor.values), 2) +
               " %"});
    if (tensor.good()) {
      ++good;
      continue;
    }
    bad += without_controls(tensor.name) + ": ";
    bad += tensor.missing
               ? std::string("the file ends before its data")
               : std::to_string(tensor.nans) + " NaN, " + std::to_string(tensor.infinities) +
                     " infinite, the first at value " + std::to_string(tensor.first_bad);
    bad += "\n";
  }
  return table.text(stdout) + "\n" + bad + std::to_string(good) + " of " +
         counted(all.size(), "tensor") + (good == 1 ? " holds" : " hold") + " finite numbers\n";
}

}  // namespace cria::tools
