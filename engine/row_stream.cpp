#include "engine/row_stream.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cria {
namespace {

constexpr std::size_t kPieceBytes = 8 << 20;
constexpr std::uint64_t kPieceRows = 1 << 16;  // rows may be short
constexpr float kF16Largest = 65504;

}  // namespace

double FormError::relative() const { return difference == 0 ? 0 : std::sqrt(difference / squares); }

RowStream::RowStream(const KernelSet& kernels, unsigned threads)
    : kernels_(kernels), team_(threads), workers_(threads) {}

void RowStream::encode(const RowJob& job, EncodeFn encoder, std::uint64_t row, std::byte* out,
                       Worker& worker) const {
  const bool copied = job.rows->copy(row, job.type, out);
  if (copied && !job.measure) return;
  job.rows->read(row, worker.values.data());
  const float largest = job.type == DType::F16 ? kF16Largest : std::numeric_limits<float>::max();
  for (const float value : worker.values) {
    if (!(std::abs(value) <= largest)) worker.bad = true, worker.worst = value;
  }
  if (!copied) encoder(worker.values.data(), nullptr, worker.values.size(), out);
  if (!job.measure) return;
  dtype_info(job.type).dequantize(out, worker.decoded.data(), worker.decoded.size());
  worker.error = {};
  for (std::size_t i = 0; i < worker.values.size(); ++i) {
    const double value = worker.values[i], difference = value - worker.decoded[i];
    worker.error.squares += value * value;
    worker.error.difference += difference * difference;
  }
}

FormError RowStream::write(const RowJob& job, const Sink& sink) {
  const std::string where = "tensor " + job.name;
  const EncodeFn encoder = kernels_.encode(job.type);
  if (encoder == nullptr && job.type != job.rows->nearest())
    throw Error(job.file, "no encoder for " + std::string(name(job.type)), where);
  for (Worker& worker : workers_) {
    worker.values.resize(job.rows->cols());
    worker.decoded.resize(job.measure ? job.rows->cols() : 0);
  }
  const std::size_t row_bytes = dtype_info(job.type).bytes(job.rows->cols());
  const std::uint64_t per_piece =
      std::clamp<std::uint64_t>(kPieceBytes / std::max<std::size_t>(1, row_bytes), 1, kPieceRows);
  const auto evaluation = team_.begin(static_cast<unsigned>(workers_.size()));
  FormError total;
  for (std::uint64_t first = 0; first < job.rows->rows(); first += per_piece) {
    const std::uint64_t n = std::min(per_piece, job.rows->rows() - first);
    const std::size_t chunks = std::min<std::size_t>(n, 64);
    buffer_.resize(n * row_bytes);
    errors_.assign(n, {});
    team_.run(chunks, [&](std::size_t chunk, unsigned seat) {
      for (std::uint64_t i = n * chunk / chunks; i < n * (chunk + 1) / chunks; ++i) {
        const std::uint64_t row = job.source_row ? job.source_row(first + i) : first + i;
        encode(job, encoder, row, buffer_.data() + i * row_bytes, workers_[seat]);
        errors_[i] = workers_[seat].error;
      }
    });
    for (const Worker& worker : workers_) {
      if (worker.bad)
        throw Error(job.file,
                    "a value that " + std::string(name(job.type)) +
                        " does not hold: expected finite numbers" +
                        (job.type == DType::F16 ? " up to 65504" : "") + ", got " +
                        number_text(static_cast<float>(worker.worst)),
                    where);
    }
    for (const FormError& error : errors_) total.add(error);
    sink(buffer_);
  }
  return total;
}

}  // namespace cria
