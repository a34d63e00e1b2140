#include "engine/convert/row_stream.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/quantize/ordered_pipeline.h"

namespace cria {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::uint64_t kPieceRows = 1 << 14;  // rows may be short

Error not_held(const RowJob& job, float value) {
  return {job.file,
          std::string(name(job.type)) + " cannot hold a value: expected finite numbers" +
              (dtype_info(job.type).is_float() && job.type != DType::F32
                   ? " up to " + number_text(largest_held(job.type))
                   : "") +
              ", got " + number_text(value),
          "tensor " + job.name};
}

}  // namespace

double FormError::relative() const { return difference == 0 ? 0 : std::sqrt(difference / squares); }

RowStream::RowStream(const KernelSet& kernels, unsigned threads)
    : kernels_(kernels), threads_(threads), pieces_(pieces_for(threads)) {}

void RowStream::encode_row(const RowJob& job, EncodeFn encoder, std::uint64_t row, Piece& piece,
                           std::size_t i) {
  std::byte* const out = piece.bytes.data() + i * (piece.bytes.size() / piece.rows);
  const bool copied = job.rows->copy(row, job.type, out);
  if (copied && !job.measure) return;
  job.rows->read(row, piece.values.data());
  const float largest =
      dtype_info(job.type).is_float() ? largest_held(job.type) : std::numeric_limits<float>::max();
  for (const float value : piece.values) {
    if (!(std::abs(value) <= largest)) piece.bad = true, piece.worst = value;
  }
  if (!copied && encoder == nullptr)
    throw Error(job.file, "no encoder for " + std::string(name(job.type)), "tensor " + job.name);
  if (!copied) encoder(piece.values.data(), nullptr, piece.values.size(), out);
  if (!job.measure) return;
  dtype_info(job.type).dequantize(out, piece.decoded.data(), piece.decoded.size());
  for (std::size_t k = 0; k < piece.values.size(); ++k) {
    const double value = piece.values[k], difference = value - piece.decoded[k];
    piece.errors[i].squares += value * value;
    piece.errors[i].difference += difference * difference;
  }
}

void RowStream::encode(const RowJob& job, EncodeFn encoder, Piece& piece) {
  piece.values.resize(job.rows->cols());
  piece.decoded.resize(job.measure ? job.rows->cols() : 0);
  piece.bytes.resize(piece.rows * dtype_info(job.type).row_bytes(job.rows->cols()));
  piece.errors.assign(piece.rows, {});
  piece.bad = false;
  for (std::uint64_t i = 0; i < piece.rows; ++i)
    encode_row(job, encoder, piece.first + i, piece, i);
}

FormError RowStream::write(const RowJob& job, const Sink& sink) {
  const EncodeFn encoder = kernels_.encode(job.type);
  const std::size_t row_bytes = dtype_info(job.type).row_bytes(job.rows->cols());
  const std::uint64_t per_piece =
      std::clamp<std::uint64_t>(kPieceBytes / std::max<std::size_t>(1, row_bytes), 1, kPieceRows);
  FormError total;
  std::uint64_t begun = 0;
  const auto next = [&](Piece& piece) {
    piece.first = begun;
    piece.rows = std::min(per_piece, job.rows->rows() - begun);
    begun += piece.rows;
    return piece.rows > 0;
  };
  const auto write = [&](const Piece& piece) {
    if (piece.bad) throw not_held(job, piece.worst);
    for (const FormError& error : piece.errors) total.add(error);
    sink(piece.bytes);
  };
  run_in_order(
      threads_, pieces_, next, [&](Piece& piece) { encode(job, encoder, piece); }, write);
  return total;
}

}  // namespace cria
