#include "engine/quantize/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <memory>

#include "engine/execute/machine.h"
#include "engine/quantize/ordered_pipeline.h"
#include "engine/quantize/rows.h"

namespace cria {
namespace {

constexpr std::size_t kPieceValues = std::size_t{1} << 19;  // 2 MiB of floats, at least one row

// Rows [begin, end) of a tensor in the pipeline.
struct Piece {
  const PlannedTensor* tensor = nullptr;
  std::span<const float> importance;  // per column of all experts; empty: none
  std::uint64_t begin = 0, end = 0;
  bool last = false;  // ends its tensor
  std::vector<float> values, decoded, weights;
  std::vector<std::byte> plain, encoded;
  std::span<const std::byte> bytes;  // to write
  double squares = 0, error_squares = 0;
  float largest = 0;  // magnitude
  bool finite = true;
};

class Quantizer {
 public:
  Quantizer(const GgufFile& file, const QuantizePlan& plan, GgufWriter& writer,
            const QuantizeRun& run, const KernelSet& kernels, unsigned threads)
      : file_(file),
        plan_(plan),
        writer_(writer),
        run_(run),
        kernels_(kernels),
        threads_(threads),
        pieces_(pieces_for(threads)) {}

  bool run() {
    writer_.begin();
    run_in_order(
        threads_, pieces_, [this](Piece& piece) { return next(piece); },
        [this](Piece& piece) { convert(piece); }, [this](Piece& piece) { write(piece); });
    if (stopped_) return false;
    writer_.finish();
    return true;
  }

 private:
  bool next(Piece& piece) {
    if (stopped_) return false;
    while (tensor_ < plan_.tensors.size() && row_ == plan_.tensors[tensor_].source->rows())
      advance();
    if (tensor_ == plan_.tensors.size()) return false;
    const PlannedTensor& tensor = plan_.tensors[tensor_];
    const TensorView& source = *tensor.source;
    if (row_ == 0) begin(source);
    piece.tensor = &tensor;
    piece.importance = importance_.empty() ? std::span<const float>() : *importance_.back();
    piece.begin = row_;
    const std::uint64_t together = dtype_info(source.dtype).interleaved_rows,
                        units = kPieceValues / (source.cols() * together);
    row_ =
        std::min<std::uint64_t>(source.rows(), row_ + std::max<std::uint64_t>(1, units) * together);
    piece.end = row_;
    piece.last = row_ == source.rows();
    return true;
  }

  void begin(const TensorView& source) {
    file_.prefetch(source);
    if (run_.importance != nullptr)
      importance_.push_back(std::make_unique<std::vector<float>>(
          run_.importance->weights(source.name, source.cols(), matrices_of(source))));
    // Pieces of only a few tensors are in flight.
    if (importance_.size() > pieces_.size() + 1) importance_.pop_front();
  }

  void advance() {
    ++tensor_;
    row_ = 0;
  }

  void convert(Piece& piece) const {
    const PlannedTensor& tensor = *piece.tensor;
    const TensorView& source = *tensor.source;
    const std::byte* from = source.data + piece.begin * source.row_bytes();
    const std::size_t n = (piece.end - piece.begin) * source.cols();
    const DTypeInfo& stored = dtype_info(source.dtype);
    if (stored.deinterleave != nullptr) from = put_in_order(source, from, piece);
    piece.squares = piece.error_squares = 0;
    piece.finite = true;
    piece.largest = 0;
    const DTypeInfo& type = dtype_info(stored.plain);
    if (type.dot == DotClass::None) {  // not weights: indices, masks
      piece.bytes = {from, (piece.end - piece.begin) * source.plain_row_bytes()};
      return;
    }
    piece.values.resize(n);
    type.dequantize_rows(from, piece.values.data(), piece.end - piece.begin, source.cols());
    examine(piece);
    if (tensor.copied()) {
      piece.bytes = {from, (piece.end - piece.begin) * source.plain_row_bytes()};
      return;
    }
    encode(piece);
    if (run_.measure) measure(piece);
  }

  /// Returns rows of an interleaved type as rows of its plain type.
  static const std::byte* put_in_order(const TensorView& source, const std::byte* from,
                                       Piece& piece) {
    const DTypeInfo& type = dtype_info(source.dtype);
    const std::size_t k = type.interleaved_rows, plain_bytes = source.plain_row_bytes();
    const std::size_t n_rows = piece.end - piece.begin;
    piece.plain.resize(n_rows * plain_bytes);
    for (std::size_t row = 0; row < n_rows; row += k)
      type.deinterleave(from + row * source.row_bytes(), source.cols(),
                        piece.plain.data() + row * plain_bytes);
    return piece.plain.data();
  }

  static void examine(Piece& piece) {
    piece.largest = largest_magnitude(piece.values);
    piece.finite = !std::isinf(piece.largest);
  }

  void encode(Piece& piece) const {
    const PlannedTensor& tensor = *piece.tensor;
    const std::size_t cols = tensor.source->cols();
    const std::size_t row_bytes = dtype_info(tensor.type).row_bytes(cols);
    const std::uint64_t rows_of_expert =
        tensor.source->shape.size() > 1 ? tensor.source->shape[1] : 1;
    if (const auto made = run_.made ? run_.made(tensor) : std::span<const std::byte>();
        !made.empty()) {
      piece.bytes = made.subspan(piece.begin * row_bytes, (piece.end - piece.begin) * row_bytes);
      return;
    }
    piece.encoded.resize((piece.end - piece.begin) * row_bytes);
    piece.bytes = piece.encoded;
    if (!piece.finite) return;
    for (std::uint64_t row = piece.begin; row < piece.end; ++row) {
      const std::size_t i = row - piece.begin;
      const std::size_t expert = piece.importance.size() == cols ? 0 : row / rows_of_expert;
      const std::span<const float> values(piece.values.data() + i * cols, cols);
      const auto known = piece.importance.empty() ? piece.importance
                                                  : piece.importance.subspan(expert * cols, cols);
      // An expert without tokens has no importance.
      encode_row(kernels_, tensor.type, values, known.empty() ? nullptr : known.data(),
                 piece.weights, piece.encoded.data() + i * row_bytes);
    }
  }

  void measure(Piece& piece) const {
    piece.decoded.resize(piece.values.size());
    dtype_info(piece.tensor->type)
        .dequantize_rows(piece.bytes.data(), piece.decoded.data(), piece.end - piece.begin,
                         piece.tensor->source->cols());
    for (std::size_t i = 0; i < piece.values.size(); ++i) {
      const double value = piece.values[i];
      const double error = value - piece.decoded[i];
      piece.squares += value * value;
      piece.error_squares += error * error;
    }
  }

  void write(Piece& piece) {
    if (stopped_) return;
    require_usable(piece);
    writer_.write(piece.bytes);
    bytes_ += piece.bytes.size();
    squares_ += piece.squares;
    error_squares_ += piece.error_squares;
    if (piece.last) finish_tensor(*piece.tensor);
    if (run_.on_progress && !run_.on_progress(bytes_)) stopped_ = true;
  }

  void require_usable(const Piece& piece) const {
    const PlannedTensor& tensor = *piece.tensor;
    require_encodable(file_, *tensor.source, tensor.copied() ? DType::F32 : tensor.type,
                      piece.largest);
  }

  void finish_tensor(const PlannedTensor& tensor) {
    std::optional<QuantizeError> error;
    if (run_.measure && !tensor.copied()) {
      const auto n = static_cast<double>(tensor.source->rows() * tensor.source->cols());
      error = {std::sqrt(error_squares_ / n), std::sqrt(squares_ / n)};
    }
    squares_ = error_squares_ = 0;
    file_.done_with(*tensor.source);
    if (run_.on_tensor) run_.on_tensor(tensor, error);
  }

  const GgufFile& file_;
  const QuantizePlan& plan_;
  GgufWriter& writer_;
  const QuantizeRun& run_;
  const KernelSet& kernels_;
  const unsigned threads_;
  std::vector<Piece> pieces_;
  // State of the reader.
  std::size_t tensor_ = 0;
  std::uint64_t row_ = 0;
  std::deque<std::unique_ptr<std::vector<float>>> importance_;
  // State of the writer.
  std::atomic<bool> stopped_{false};
  std::uint64_t bytes_ = 0;
  double squares_ = 0, error_squares_ = 0;  // sums of the current tensor
};

}  // namespace

void require_encoders(const QuantizePlan& plan, const KernelSet& kernels) {
  for (const PlannedTensor& tensor : plan.tensors) {
    if (!tensor.copied() && kernels.encode(tensor.type) == nullptr)
      throw Error("", "no encoder for type " + std::string(name(tensor.type)) + " in this version",
                  "tensor " + std::string(tensor.source->name));
  }
}

bool quantize(const GgufFile& file, const QuantizePlan& plan, GgufWriter& writer,
              const QuantizeRun& run) {
  const KernelSet& kernels = run.kernels != nullptr ? *run.kernels : kernels_in_use();
  require_encoders(plan, kernels);
  require_other_file(file, writer.path());
  const unsigned threads = run.threads != 0 ? run.threads : usable_cores();
  return Quantizer(file, plan, writer, run, kernels, threads).run();
}

}  // namespace cria
