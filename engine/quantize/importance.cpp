#include "engine/quantize/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "model/error.h"
#include "model/file/binary_file.h"
#include "model/file/mapping.h"
#include "model/gguf/writer.h"
#include "model/limits.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr double kMinShare = 1e-4;  // minimum of a column, as a share of the mean

void require_size(std::string_view tensor, std::uint64_t expected, std::uint64_t got) {
  if (expected == got) return;
  throw Error("",
              "this importance matrix belongs to a different model: expected " +
                  counted(expected, "column") + ", got " + std::to_string(got),
              "tensor " + std::string(tensor));
}

// Expands a single count to one per expert.
void spread(std::vector<double>& counts, std::size_t n) {
  if (counts.size() == 1) counts.resize(n, counts.front());
}

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts", kOldEnding = ".dat";

void require_sane(const std::string& path, const std::string& name,
                  std::span<const double> values) {
  for (const double value : values) {
    if (!std::isfinite(value) || value < 0)
      throw Error(path,
                  "bad sum of squares: expected finite numbers of at least 0, got " +
                      number_text(static_cast<float>(value)),
                  "tensor " + name);
  }
}

std::vector<double> f32_values(const GgufFile& file, const TensorView& tensor) {
  if (tensor.dtype != DType::F32)
    throw file.error("wrong type: expected F32, got " + std::string(name(tensor.dtype)),
                     "tensor " + std::string(tensor.name));
  std::vector<float> values(tensor.bytes / sizeof(float));
  std::memcpy(values.data(), tensor.data, tensor.bytes);
  return {values.begin(), values.end()};
}

std::uint32_t u32_or(const GgufFile& file, std::string_view key, std::uint32_t otherwise) {
  const std::uint64_t value = file.find_uint(key).value_or(otherwise);
  if (value > std::numeric_limits<std::uint32_t>::max())
    throw file.error("too large: got " + std::to_string(value), "key " + std::string(key));
  return static_cast<std::uint32_t>(value);
}

ImportanceMatrix read_gguf(const std::string& path) {
  const GgufFile file = GgufFile::open(path);
  if (file.find_string("general.type").value_or("") != "imatrix")
    throw file.error("no importance matrix: expected a file of general.type imatrix",
                     "key general.type");
  ImportanceMatrix matrix;
  matrix.chunks = u32_or(file, "imatrix.chunk_count", 0);
  matrix.chunk_size = std::max(1U, u32_or(file, "imatrix.chunk_size", matrix.chunk_size));
  if (const auto datasets = file.find_strings("imatrix.datasets"))
    matrix.datasets.assign(datasets->begin(), datasets->end());
  for (const TensorView& sums : file.tensors()) {
    if (!sums.name.ends_with(kSums)) continue;
    const std::string name(sums.name.substr(0, sums.name.size() - kSums.size()));
    const TensorView* counts = file.tensor(name + std::string(kCounts));
    if (counts == nullptr) throw file.error("sums without their counts", "tensor " + name);
    ImportanceEntry entry{f32_values(file, sums), f32_values(file, *counts)};
    if (entry.sums.empty() || entry.counts.empty() || entry.sums.size() % entry.counts.size() != 0)
      throw file.error("sums and counts do not match: got " + std::to_string(entry.sums.size()) +
                           " and " + std::to_string(entry.counts.size()),
                       "tensor " + name);
    require_sane(path, name, entry.sums);
    require_sane(path, name, entry.counts);
    matrix.entries.emplace(name, std::move(entry));
  }
  return matrix;
}

std::int32_t read_number(Cursor& in, const std::string& path, std::string_view what,
                         std::int32_t least, std::uint64_t most) {
  const std::string at = in.at();
  const auto number = in.read<std::int32_t>(what);
  if (number < least || static_cast<std::uint64_t>(number) > most)
    throw Error(path,
                "not an importance matrix, or damaged: " + std::string(what) + " is " +
                    std::to_string(number),
                at);
  return number;
}

// Means times chunks become sums of squares, assuming chunks of the usual size.
void read_old_entry(Cursor& in, const std::string& path, ImportanceMatrix& matrix) {
  const auto length = read_number(in, path, "the length of a name", 1, limits::kKeyBytes);
  const std::string name(
      reinterpret_cast<const char*>(in.take(static_cast<std::uint64_t>(length), "a name")),
      static_cast<std::size_t>(length));
  const double chunks = read_number(in, path, "the number of chunks", 0, limits::kContext);
  const auto n = static_cast<std::size_t>(
      read_number(in, path, "the number of values", 1, in.remaining() / sizeof(float)));
  std::vector<float> values(n);
  std::memcpy(values.data(), in.take(n * sizeof(float), "values"), n * sizeof(float));
  ImportanceEntry entry{{values.begin(), values.end()},
                        {std::max(1.0, chunks) * matrix.chunk_size}};
  require_sane(path, name, entry.sums);
  for (double& sum : entry.sums) sum *= matrix.chunk_size;
  if (!matrix.entries.emplace(name, std::move(entry)).second)
    throw Error(path, "an entry comes twice", "tensor " + name);
}

ImportanceMatrix read_old(const std::string& path, std::span<const std::byte> bytes) {
  Cursor in(bytes, path);
  ImportanceMatrix matrix;
  matrix.knows_chunk_size = false;
  const auto n = read_number(in, path, "the number of entries", 1, limits::kTensors);
  for (std::int32_t i = 0; i < n; ++i) read_old_entry(in, path, matrix);
  if (in.remaining() == 0) return matrix;  // the oldest files end here
  matrix.chunks = static_cast<std::uint32_t>(
      read_number(in, path, "the number of chunks", 0, limits::kContext));
  const auto length = read_number(in, path, "the length of a dataset's name", 0, limits::kKeyBytes);
  const auto* const text =
      reinterpret_cast<const char*>(in.take(static_cast<std::uint64_t>(length), "a dataset"));
  if (length > 0) matrix.datasets.emplace_back(text, static_cast<std::size_t>(length));
  return matrix;
}

void write_gguf(const ImportanceMatrix& matrix, const std::string& path) {
  GgufWriter writer(path);
  writer.set("general.type", std::string("imatrix"));
  writer.set("imatrix.datasets", GgufArray::of(matrix.datasets));
  writer.set("imatrix.chunk_count", matrix.chunks);
  writer.set("imatrix.chunk_size", matrix.chunk_size);
  for (const auto& [name, entry] : matrix.entries) {
    const std::uint64_t experts = entry.counts.size();
    writer.declare(name + std::string(kSums), DType::F32, {entry.sums.size() / experts, experts});
    writer.declare(name + std::string(kCounts), DType::F32, {1, experts});
  }
  writer.begin();
  for (const auto& [name, entry] : matrix.entries) {
    for (const std::vector<double>* values : {&entry.sums, &entry.counts}) {
      const std::vector<float> floats(values->begin(), values->end());
      writer.write(std::as_bytes(std::span(floats)));
    }
  }
  writer.finish();
}

// The form has one number of chunks for all experts, and its readers divide by it. Experts without
// tokens get the average of the others.
std::vector<float> old_values(const ImportanceEntry& entry, double chunks) {
  std::vector<float> values(entry.sums.size());
  const std::size_t cols = values.size() / entry.counts.size();
  for (std::size_t col = 0; col < cols; ++col) {
    double sum = 0, count = 0;
    for (std::size_t expert = 0; expert < entry.counts.size(); ++expert) {
      sum += entry.sums[expert * cols + col];
      count += entry.counts[expert];
    }
    for (std::size_t expert = 0; expert < entry.counts.size(); ++expert) {
      const std::size_t i = expert * cols + col;
      const double mine = entry.counts[expert];
      const double mean = mine > 0 ? entry.sums[i] / mine : count > 0 ? sum / count : 0;
      values[i] = static_cast<float>(mean * chunks);
    }
  }
  return values;
}

void write_old(const ImportanceMatrix& matrix, const std::string& path) {
  BinaryWriter out(path);
  const auto write_text = [&](std::string_view text) {
    out.write_number(static_cast<std::int32_t>(text.size()));
    out.write(text.data(), text.size());
  };
  out.write_number(static_cast<std::int32_t>(matrix.entries.size()));
  for (const auto& [name, entry] : matrix.entries) {
    const double most = *std::ranges::max_element(entry.counts);
    const double chunks = std::clamp(std::round(most / matrix.chunk_size), 1.0,
                                     static_cast<double>(limits::kContext));
    write_text(name);
    out.write_number(static_cast<std::int32_t>(chunks));
    out.write_number(static_cast<std::int32_t>(entry.sums.size()));
    const std::vector<float> values = old_values(entry, chunks);
    out.write(values.data(), values.size() * sizeof(float));
  }
  out.write_number(
      static_cast<std::int32_t>(std::min<std::uint64_t>(matrix.chunks, limits::kContext)));
  std::string datasets;
  for (const std::string& dataset : matrix.datasets)
    datasets += (datasets.empty() ? "" : ", ") + dataset;
  write_text(std::string_view(datasets).substr(0, limits::kKeyBytes));
  out.finish();
}

}  // namespace

void ImportanceMatrix::add(const ImportanceMatrix& other) {
  for (const auto& [name, theirs] : other.entries) {
    const auto [found, is_new] = entries.try_emplace(name, theirs);
    if (is_new) continue;
    ImportanceEntry& mine = found->second;
    require_size(name, mine.sums.size(), theirs.sums.size());
    std::vector<double> counts = theirs.counts;
    spread(counts, mine.counts.size());
    spread(mine.counts, counts.size());
    require_size(name, mine.counts.size(), counts.size());
    for (std::size_t i = 0; i < mine.sums.size(); ++i) mine.sums[i] += theirs.sums[i];
    for (std::size_t i = 0; i < counts.size(); ++i) mine.counts[i] += counts[i];
  }
  for (const std::string& dataset : other.datasets) {
    if (std::ranges::find(datasets, dataset) == datasets.end()) datasets.push_back(dataset);
  }
  if (chunks == 0) {
    chunk_size = other.chunk_size;
    knows_chunk_size = other.knows_chunk_size;
  }
  std::uint64_t more = other.chunks;
  if (knows_chunk_size && other.knows_chunk_size)
    more = (more * other.chunk_size + chunk_size / 2) / chunk_size;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  chunks = static_cast<std::uint32_t>(std::min(chunks + more, kMost));
}

std::vector<float> ImportanceMatrix::weights(std::string_view tensor, std::uint64_t cols,
                                             std::uint64_t experts) const {
  const auto found = entries.find(tensor);
  if (found == entries.end()) return {};
  const ImportanceEntry& entry = found->second;
  if (entry.sums.size() != cols) require_size(tensor, cols * experts, entry.sums.size());
  std::vector<float> weights(cols * experts);
  const std::size_t per_count = entry.sums.size() / entry.counts.size();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t from = i % entry.sums.size();  // one entry serves all experts
    const double count = entry.counts[from / per_count];
    // A file's tiny counts may make the mean exceed any float.
    constexpr double kMost = std::numeric_limits<float>::max();
    weights[i] = count > 0 ? static_cast<float>(std::min(entry.sums[from] / count, kMost)) : 0.0F;
  }
  for (auto row = weights.begin(); row != weights.end(); row += static_cast<std::ptrdiff_t>(cols)) {
    const auto end = row + static_cast<std::ptrdiff_t>(cols);
    const auto least =
        static_cast<float>(kMinShare * std::accumulate(row, end, 0.0) / static_cast<double>(cols));
    std::for_each(row, end, [&](float& weight) { weight = std::max(weight, least); });
  }
  return weights;
}

ImportanceMatrix ImportanceMatrix::read(const std::string& path) {
  const Mapping mapping(path, MapMode::Mmap);
  const std::span<const std::byte> bytes = mapping.bytes();
  constexpr std::string_view kMagic = "GGUF";
  const bool is_gguf =
      bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  ImportanceMatrix matrix = is_gguf ? read_gguf(path) : read_old(path, bytes);
  if (matrix.entries.empty()) throw Error(path, "an importance matrix without entries");
  return matrix;
}

void ImportanceMatrix::write(const std::string& path) const {
  if (path.ends_with(kOldEnding))
    write_old(*this, path);
  else
    write_gguf(*this, path);
}

}  // namespace cria
