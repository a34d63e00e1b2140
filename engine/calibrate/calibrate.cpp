#include "engine/calibrate/calibrate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

namespace cria {
namespace {

// E[a·bᵀ] over rows of a and b that belong together, in double; the products of a window are summed
// by the float32 kernel.
class Moments {
 public:
  Moments(std::size_t a_width, std::size_t b_width, const KernelSet& kernels, unsigned threads)
      : a_width_(a_width),
        b_width_(b_width),
        kernels_(kernels),
        threads_(threads),
        sums_(a_width * b_width) {}

  void add(const float* a, const float* b, std::size_t rows) {
    transpose(a, rows, a_width_, a_);
    if (a != b || a_width_ != b_width_) transpose(b, rows, b_width_, b_);
    const float* const by = a == b && a_width_ == b_width_ ? a_.data() : b_.data();
    constexpr std::size_t kRows = 32;
    for_each_on(threads_, (a_width_ + kRows - 1) / kRows, [&](std::size_t chunk) {
      const std::size_t begin = chunk * kRows, end = std::min(a_width_, begin + kRows);
      std::vector<float> products((end - begin) * b_width_);
      add_products(kernels_, by, rows, b_width_, rows, &a_[begin * rows], rows, end - begin,
                   products.data(), b_width_);
      for (std::size_t i = 0; i < products.size(); ++i) sums_[begin * b_width_ + i] += products[i];
    });
    rows_ += rows;
  }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// Returns the sums divided by the number of rows.
  [[nodiscard]] std::vector<double> mean() const {
    std::vector<double> mean = sums_;
    for (double& value : mean) value /= static_cast<double>(std::max<std::size_t>(rows_, 1));
    return mean;
  }

 private:
  static void transpose(const float* from, std::size_t rows, std::size_t width,
                        std::vector<float>& to) {
    to.resize(rows * width);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < width; ++i) to[i * rows + r] = from[r * width + i];
  }
  std::size_t a_width_, b_width_;
  const KernelSet& kernels_;
  unsigned threads_;
  std::vector<double> sums_;
  std::vector<float> a_, b_;
  std::size_t rows_ = 0;
};

class Calibration {
 public:
  Calibration(const Model& model, const QuantizePlan& plan, const CalibrationTokens& tokens,
              const CalibrationOptions& options)
      : model_(model),
        tokens_(tokens),
        options_(options),
        kernels_(options.kernels != nullptr ? *options.kernels : kernels_in_use()),
        exact_(model, tokens, kernels_, options.feedback.threads),
        present_(model, tokens, kernels_, options.feedback.threads) {
    for (const PlannedTensor& tensor : plan.tensors)
      if (!tensor.copied() && is_integer(dtype_info(tensor.type).dot))
        types_.emplace(tensor.source->name, tensor.type);
  }

  CalibratedTensors run() {
    const std::vector<Node>& nodes = model_.graph().nodes;
    if (!quantize_tied_table()) return {};
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!wants(nodes[i])) continue;
      if (i + 1 == nodes.size() && done_.contains(nodes[i].matrices.front().weight.name)) break;
      exact_.run_to(i);
      present_.run_to(i);
      if (!(nodes[i].facts.dense ? quantize_dense(i) : quantize_experts(i))) return {};
    }
    return std::move(done_);
  }

 private:
  using Target = std::vector<float>;

  [[nodiscard]] std::optional<DType> type_of(const Matrix& m) const {
    const auto found = types_.find(m.weight.name);
    if (!m.multiplies() || found == types_.end()) return std::nullopt;
    return found->second;
  }
  [[nodiscard]] bool wants(const Node& node) const {
    const bool known = node.facts.dense || node.as<ExpertsUpOp>() != nullptr ||
                       node.as<ExpertsDownOp>() != nullptr;
    return known && std::ranges::any_of(node.matrices,
                                        [&](const Matrix& m) { return type_of(m).has_value(); });
  }

  // An embedding that also makes the logits is quantized first, so that the layers can answer its
  // errors. It is looked up, too, where every column counts the same: hence its large damping.
  bool quantize_tied_table() {
    const std::vector<Node>& nodes = model_.graph().nodes;
    if (model_.graph().head != Head::Vocabulary) return true;
    const Matrix& head = nodes.back().matrices.front();
    const Matrix& table = nodes.front().matrices.front();
    if (head.weight.data != table.weight.data || !type_of(head)) return true;
    LayerStream stream(model_, tokens_, kernels_, options_.feedback.threads);
    stream.run_to(nodes.size() - 1);
    FeedbackOptions feedback = options_.feedback;
    feedback.damping = options_.table_damping;
    const std::vector<double> h = second_moments(stream, nodes.back().in);
    const auto moments = moments_of(h, head.weight.cols(), feedback);
    if (!quantize(head, moments.get(), nullptr, nullptr, feedback)) return false;
    TensorView view = table.weight;
    view.dtype = *type_of(head);
    view.data = done_.find(head.weight.name)->second.data();
    present_.replace(0, 0, view);
    return true;
  }

  std::vector<double> second_moments(const LayerStream& stream, ValueId value) const {
    return cross_moments(stream.rows(value), stream.rows(value), value, value);
  }
  std::vector<double> cross_moments(std::span<const float> a, std::span<const float> b,
                                    ValueId a_value, ValueId b_value) const {
    const std::size_t a_width = model_.graph().values[a_value].width;
    const std::size_t b_width = model_.graph().values[b_value].width;
    Moments moments(a_width, b_width, kernels_, options_.feedback.threads);
    for (std::size_t w = 0; w < tokens_.windows(); ++w)
      moments.add(&a[w * tokens_.window * a_width], &b[w * tokens_.window * b_width],
                  tokens_.window);
    return moments.mean();
  }

  std::unique_ptr<InputMoments> moments_of(const std::vector<double>& h, std::size_t n,
                                           const FeedbackOptions& feedback) const {
    try {
      auto moments = std::make_unique<InputMoments>(h, n, feedback, kernels_);
      if (moments->damping() != feedback.damping)
        note("moments of the inputs are nearly singular: damped by " +
             number_text(moments->damping()));
      return moments;
    } catch (const std::domain_error& error) {
      note(std::string(error.what()) + ": the encoder alone is used");
      return nullptr;
    }
  }
  void note(const std::string& text) const {
    if (options_.on_note) options_.on_note(text);
  }

  bool quantize_dense(std::size_t i) {
    const Node& node = model_.graph().nodes[i];
    const ValueId in = node.in;
    const std::size_t n = model_.graph().values[in].width;
    const std::span<const float> x = exact_.rows(in), y = present_.rows(in);
    const auto moments = moments_of(second_moments(present_, in), n, options_.feedback);
    std::vector<float> shift, lacking;
    if (moments) {
      std::vector<double> cross = cross_moments(x, y, in, in);
      for (std::size_t k = 0; k < cross.size(); ++k) cross[k] -= moments->undamped(k);
      shift = times_inverse(cross, *moments);
      const auto* const product = node.as<MatMulOp>();
      if (product != nullptr && product->residual && i + 1 != model_.graph().nodes.size()) {
        const std::span<const float> a = exact_.rows(node.out), b = present_.rows(node.out);
        std::vector<float> difference(a.size());
        for (std::size_t k = 0; k < a.size(); ++k) difference[k] = a[k] - b[k];
        lacking = times_inverse(cross_moments(difference, y, node.out, in), *moments);
      }
    }
    for (std::size_t k = 0; k < node.matrices.size(); ++k) {
      const Matrix& m = node.matrices[k];
      if (!type_of(m)) continue;
      if (!quantize(m, moments.get(), &shift, &lacking, options_.feedback)) return false;
      use(i, k);
    }
    return true;
  }

  // Σ_k a[r][k]·H⁻¹[k][j], H damped.
  std::vector<float> times_inverse(const std::vector<double>& a,
                                   const InputMoments& moments) const {
    const std::size_t n = moments.size(), rows = a.size() / n;
    const std::vector<float> floats(a.begin(), a.end());
    std::vector<float> out(rows * n);
    for_each_chunk(rows, [&](std::size_t begin, std::size_t size) {
      add_products(kernels_, moments.inverse().data(), n, n, n, &floats[begin * n], n, size,
                   &out[begin * n], n);
    });
    return out;
  }

  // Returns the target of a matrix's rows: W + W·shift + lacking.
  Target target_of(const Matrix& m, const std::vector<float>* shift,
                   const std::vector<float>* lacking) const {
    const std::size_t n = m.weight.cols(), rows = m.weight.rows();
    Target exact(rows * n);
    for_each_chunk(rows, [&](std::size_t begin, std::size_t size) {
      dtype_info(m.weight.dtype)
          .dequantize_rows(m.weight.data + begin * m.weight.row_bytes(), &exact[begin * n], size,
                           n);
    });
    if (shift == nullptr || shift->empty()) return exact;
    std::vector<float> transposed(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) transposed[j * n + i] = (*shift)[i * n + j];
    Target target = exact;
    if (lacking != nullptr && lacking->size() == target.size())
      std::ranges::transform(target, *lacking, target.begin(), std::plus<>());
    for_each_chunk(rows, [&](std::size_t begin, std::size_t size) {
      add_products(kernels_, transposed.data(), n, n, n, &exact[begin * n], n, size,
                   &target[begin * n], n);
    });
    return target;
  }

  template <class F>
  void for_each_chunk(std::size_t rows, F&& f) const {
    constexpr std::size_t kRows = 32;
    for_each_on(options_.feedback.threads, (rows + kRows - 1) / kRows, [&](std::size_t chunk) {
      f(chunk * kRows, std::min(rows - chunk * kRows, kRows));
    });
  }

  // Quantizes a tensor or some of its rows; without moments, uses only the encoder.
  bool quantize(const Matrix& m, const InputMoments* moments, const std::vector<float>* shift,
                const std::vector<float>* lacking, const FeedbackOptions& feedback) {
    const DType type = *type_of(m);
    const DTypeInfo& info = dtype_info(type);
    const std::size_t n = m.weight.cols(), rows = m.weight.rows();
    std::byte* const out = place_of(m);
    Feedback::Loss loss;
    if (moments != nullptr) {
      loss =
          Feedback(type, *moments, feedback, kernels_).quantize(target_of(m, shift, lacking), out);
    } else {
      const Target exact = target_of(m, nullptr, nullptr);
      for_each_chunk(rows, [&](std::size_t begin, std::size_t size) {
        for (std::size_t r = begin; r < begin + size; ++r)
          kernels_.encode(type)(&exact[r * n], nullptr, n, out + r * info.row_bytes(n));
      });
    }
    return !options_.on_matrix || options_.on_matrix(std::string(m.weight.name), rows * n, loss);
  }

  // Returns the place of a matrix's blocks within its tensor.
  std::byte* place_of(const Matrix& m) {
    const TensorView& tensor = *model_.file().tensor(m.weight.name);
    const std::size_t row_bytes = dtype_info(*type_of(m)).row_bytes(tensor.cols());
    std::vector<std::byte>& bytes = done_[std::string(tensor.name)];
    bytes.resize(tensor.rows() * row_bytes);
    const auto row = static_cast<std::size_t>(m.weight.data - tensor.data) / tensor.row_bytes();
    return bytes.data() + row * row_bytes;
  }

  // The present stream continues with the quantized matrix.
  void use(std::size_t node, std::size_t matrix) {
    const Matrix& m = model_.graph().nodes[node].matrices[matrix];
    TensorView rows = m.weight;
    rows.dtype = *type_of(m);
    rows.data = place_of(m);
    present_.replace(node, matrix, rows);
  }

  // Quantizes each expert with its own tokens. Its moments are mixed with the moments of all
  // experts, whose weight equals that of as many tokens as the input has columns.
  bool quantize_experts(std::size_t i) {
    const Node& node = model_.graph().nodes[i];
    const bool down = node.as<ExpertsDownOp>() != nullptr;
    const std::size_t experts = down ? node.as<ExpertsDownOp>()->n : node.as<ExpertsUpOp>()->n;
    const std::size_t n = model_.graph().values[node.in].width;
    const std::size_t rows_per_token = model_.graph().values[node.in].rows_per_token;
    std::vector<std::vector<std::uint32_t>> rows(experts);  // rows of the value, by expert
    present_.visit_experts(i, [&](std::size_t window, const ExpertRows& taken) {
      const std::size_t first = window * tokens_.window * rows_per_token;
      for (std::size_t e = 0; e < experts; ++e)
        for (std::size_t slot = taken.begin[e]; slot < taken.begin[e + 1]; ++slot)
          rows[e].push_back(static_cast<std::uint32_t>(first + (down ? slot : taken.token[slot])));
    });
    const std::vector<double> all =
        down ? expert_moments(node.in, rows, n).mean() : second_moments(present_, node.in);
    for (std::size_t e = 0; e < experts; ++e) {
      const Moments own = expert_moments(node.in, {rows[e]}, n);
      std::vector<double> h = own.mean();
      const double part = static_cast<double>(own.rows()) / static_cast<double>(own.rows() + n);
      for (std::size_t k = 0; k < h.size(); ++k) h[k] = part * h[k] + (1 - part) * all[k];
      std::unique_ptr<InputMoments> moments;
      if (own.rows() == 0)
        note(node.name + ": no token takes expert " + std::to_string(e) +
             ": the encoder alone is used");
      else
        moments = moments_of(h, n, options_.feedback);
      for (std::size_t k = e; k < node.matrices.size(); k += experts) {
        if (!type_of(node.matrices[k])) continue;
        if (!quantize(node.matrices[k], moments.get(), nullptr, nullptr, options_.feedback))
          return false;
        use(i, k);
      }
    }
    return true;
  }

  Moments expert_moments(ValueId in, const std::vector<std::vector<std::uint32_t>>& rows,
                         std::size_t n) const {
    Moments moments(n, n, kernels_, options_.feedback.threads);
    const std::span<const float> values = present_.rows(in);
    std::vector<float> some;
    for (const std::vector<std::uint32_t>& list : rows) {
      for (std::size_t begin = 0; begin < list.size(); begin += tokens_.window) {
        const std::size_t end = std::min(list.size(), begin + tokens_.window);
        some.clear();
        for (std::size_t k = begin; k < end; ++k)
          some.insert(some.end(), values.begin() + static_cast<std::ptrdiff_t>(list[k] * n),
                      values.begin() + static_cast<std::ptrdiff_t>((list[k] + 1) * n));
        moments.add(some.data(), some.data(), end - begin);
      }
    }
    return moments;
  }

  const Model& model_;
  const CalibrationTokens& tokens_;
  const CalibrationOptions& options_;
  const KernelSet& kernels_;
  std::map<std::string, DType, std::less<>> types_;
  CalibratedTensors done_;
  LayerStream exact_, present_;
};

}  // namespace

CalibratedTensors calibrate(const Model& model, const QuantizePlan& plan,
                            const CalibrationTokens& tokens, const CalibrationOptions& options) {
  return Calibration(model, plan, tokens, options).run();
}

void declare_calibration(GgufWriter& writer, const std::string& texts, std::size_t tokens) {
  writer.set("quantize.calibration.method", "error feedback");
  writer.set("quantize.calibration.texts", texts);
  writer.set("quantize.calibration.tokens", static_cast<std::uint32_t>(tokens));
}

}  // namespace cria
