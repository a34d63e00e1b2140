#include "engine/calibrate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "engine/calibrate/planned_matrices.h"
#include "engine/model_parts.h"
#include "engine/quantize/rows.h"

namespace cria {
namespace {

constexpr std::uint32_t kMethodVersion = 3;  // other versions make other blocks

class Calibration {
 public:
  Calibration(const Model& model, const QuantizePlan& plan, const CalibrationTokens& tokens,
              const CalibrationOptions& options, CalibrationState& state)
      : model_(model),
        tokens_(tokens),
        options_(options),
        kernels_(options.kernels != nullptr ? *options.kernels : kernels_in_use()),
        matrices_(model, plan, kernels_, options.feedback.threads, state),
        exact_(model, tokens, kernels_, options.feedback.threads),
        present_(model, tokens, kernels_, options.feedback.threads) {
    for (const DType type : matrices_.unsuited())
      note(std::string(name(type)) +
           ": its codes depend on one another, so the encoder chooses them");
  }

  void run() {
    const std::vector<Node>& nodes = model_.graph().nodes;
    if (options_.on_start) options_.on_start(memory());
    const bool tied = tied_table() != nullptr;
    if (tied) quantize_tied_table();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!wants(nodes[i]) || (tied && i + 1 == nodes.size())) continue;
      if (nodes[i].facts.dense)
        quantize_dense(i);
      else if (heads_of(nodes[i]) != nullptr)
        quantize_heads(i);
      else
        quantize_experts(i);
    }
  }

 private:
  [[nodiscard]] bool wants(const Node& node) const {
    const bool known = node.facts.dense || heads_of(node) != nullptr ||
                       node.as<ExpertsUpOp>() != nullptr || node.as<ExpertsDownOp>() != nullptr;
    return known && std::ranges::any_of(node.matrices, [&](const Matrix& m) {
             return matrices_.type_of(m).has_value();
           });
  }
  // Products of heads with the rows of whole tensors; null for the two halves of one tensor.
  [[nodiscard]] const HeadProductsOp* heads_of(const Node& node) const {
    const auto* const heads = node.as<HeadProductsOp>();
    if (heads == nullptr) return nullptr;
    const TensorView& first = node.matrices.front().weight;
    const bool whole = first.rows() * heads->n_heads == model_.file().tensor(first.name)->rows();
    return whole ? heads : nullptr;
  }
  [[nodiscard]] bool is_finished(const Node& node) const {
    return std::ranges::all_of(node.matrices, [&](const Matrix& m) {
      return !matrices_.type_of(m) || matrices_.is_finished(m);
    });
  }
  [[nodiscard]] std::size_t width_of(ValueId value) const {
    return model_.graph().values[value].width;
  }
  // A product whose output is added to the residual stream.
  [[nodiscard]] bool adds_to_stream(std::size_t i) const {
    const Node& node = model_.graph().nodes[i];
    const auto* const product = node.as<MatMulOp>();
    return product != nullptr && product->residual && node.matrices.size() == 1 &&
           !node.matrices.front().scale && i + 1 != model_.graph().nodes.size();
  }

  // The embedding if it also makes the logits and the plan quantizes it; else null.
  [[nodiscard]] const Matrix* tied_table() const {
    const std::vector<Node>& nodes = model_.graph().nodes;
    if (model_.graph().head != Head::Vocabulary) return nullptr;
    const Matrix& head = nodes.back().matrices.front();
    const Matrix& table = nodes.front().matrices.front();
    return head.weight.data == table.weight.data && matrices_.type_of(head) ? &head : nullptr;
  }

  // The table is quantized first, so that the layers can answer its errors. It is looked up, too,
  // where every column counts the same: hence its large and even damping.
  void quantize_tied_table() {
    const std::vector<Node>& nodes = model_.graph().nodes;
    const Matrix& head = *tied_table();
    std::unique_ptr<InputMoments> moments;
    FeedbackOptions feedback = options_.feedback;
    feedback.damping = options_.table_damping;
    feedback.even = true;
    if (!matrices_.is_finished(head)) {
      LayerStream stream(model_, tokens_, kernels_, options_.feedback.threads);
      SquareSums sums = sums_of(nodes.back().in);
      Columns columns = columns_of(nodes.back().in);
      stream.visit(nodes.size() - 1, [&](std::size_t) {
        options_.check();
        columns.set(stream.rows_of_window(nodes.back().in));
        sums.add(columns);
      });
      moments = moments_of(sums.take_mean(), feedback, false);
    }
    quantize(head, moments.get(), {}, feedback);
    present_.replace(0, 0, matrices_.rows_of(head));
  }

  [[nodiscard]] Columns columns_of(ValueId value) const {
    return {width_of(value), options_.feedback.threads};
  }
  [[nodiscard]] SquareSums sums_of(ValueId value) const {
    return {width_of(value), kernels_, options_.feedback.threads};
  }

  std::unique_ptr<InputMoments> moments_of(Triangle h, const FeedbackOptions& feedback,
                                           bool inverse) const {
    try {
      auto moments = std::make_unique<InputMoments>(std::move(h), feedback, kernels_, inverse);
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

  void quantize_dense(std::size_t i) {
    const Node& node = model_.graph().nodes[i];
    std::unique_ptr<InputMoments> moments;
    Correction correction;
    if (!is_finished(node)) {
      present_.run_to(present_.narrow_place(i));
      read_inputs(i, moments, correction);
    }
    for (std::size_t k = 0; k < node.matrices.size(); ++k) {
      if (!matrices_.type_of(node.matrices[k])) continue;
      quantize(node.matrices[k], moments.get(), correction, options_.feedback);
      use(i, k);
    }
  }

  // One pass of both streams over the windows: moments of the present inputs y, and products of
  // errors with y. Errors are those of the inputs, x - y, or of the residual stream after this node
  // with exact weights.
  void read_inputs(std::size_t i, std::unique_ptr<InputMoments>& moments, Correction& correction) {
    const Node& node = model_.graph().nodes[i];
    const std::size_t n = width_of(node.in);
    const bool residual = adds_to_stream(i);
    const std::vector<float> weights =
        residual
            ? matrices_.floats_of(node.matrices.front(), 0, node.matrices.front().weight.rows())
            : std::vector<float>();
    SquareSums squares = sums_of(node.in);
    ProductSums errors(residual ? width_of(node.out) : n, n, kernels_, options_.feedback.threads);
    {
      Columns inputs = columns_of(node.in), lacks = columns_of(residual ? node.out : node.in);
      std::vector<float> error, lack;
      LayerStream::Preview present(present_, i);
      exact_.visit(i, [&](std::size_t w) {
        options_.check();
        present.run(w);
        const std::span<const float> x = exact_.rows_of_window(node.in),
                                     y = present_.rows_of_window(node.in);
        inputs.set(y);
        squares.add(inputs);
        if (residual) {
          subtract(x, y, error);
          subtract(exact_.rows_of_window(node.out), present_.rows_of_window(node.out), lack);
          matrices_.add_products_of(weights, n, error, lack);
          lacks.set(lack);
        } else {
          lacks.set_difference(x, y);
        }
        errors.add(lacks, inputs);
      });
    }
    moments = moments_of(squares.take_mean(), options_.feedback, true);
    if (!moments) return;
    if (residual)
      correction.by_output = answer_to(errors.take_mean(), *moments, n, node);
    else
      correction.by_input = answer_by_input(errors.take_mean(), *moments, n, node);
  }

  // Quantizes the matrix of each head with its own inputs, which are columns of one value.
  void quantize_heads(std::size_t i) {
    const Node& node = model_.graph().nodes[i];
    const std::size_t n = node.matrices.front().weight.cols();
    const std::size_t heads = is_finished(node) ? 0 : node.matrices.size();
    const unsigned threads = options_.feedback.threads;
    std::vector<SquareSums> squares(heads, {n, kernels_, threads});
    std::vector<ProductSums> errors(heads, {n, n, kernels_, threads});
    if (heads > 0) read_heads(i, squares, errors);
    for (std::size_t k = 0; k < node.matrices.size(); ++k) {
      std::unique_ptr<InputMoments> moments;
      Correction correction;
      if (heads > 0) moments = moments_of(squares[k].take_mean(), options_.feedback, true);
      if (moments) correction.by_input = answer_by_input(errors[k].take_mean(), *moments, n, node);
      quantize(node.matrices[k], moments.get(), correction, options_.feedback);
      use(i, k);
    }
  }
  void read_heads(std::size_t i, std::vector<SquareSums>& squares,
                  std::vector<ProductSums>& errors) {
    const Node& node = model_.graph().nodes[i];
    const std::size_t stride = heads_of(node)->in_stride, width = width_of(node.in);
    const std::size_t n = node.matrices.front().weight.cols();
    std::vector<float> part, error;
    Columns inputs(n, options_.feedback.threads), lacks = inputs;
    const auto set_columns_of = [&](std::size_t head, std::span<const float> rows, Columns& to) {
      part.clear();
      for (std::size_t begin = head * stride; begin < rows.size(); begin += width)
        part.insert(part.end(), &rows[begin], &rows[begin] + n);
      to.set(part);
    };
    present_.run_to(present_.narrow_place(i));
    LayerStream::Preview present(present_, i);
    exact_.visit(i, [&](std::size_t w) {
      options_.check();
      present.run(w);
      const std::span<const float> y = present_.rows_of_window(node.in);
      subtract(exact_.rows_of_window(node.in), y, error);
      for (std::size_t head = 0; head < squares.size(); ++head) {
        set_columns_of(head, y, inputs);
        set_columns_of(head, error, lacks);
        squares[head].add(inputs);
        errors[head].add(lacks, inputs);
      }
    });
  }

  // c = a - b
  void subtract(std::span<const float> a, std::span<const float> b, std::vector<float>& c) const {
    constexpr std::size_t kSome = 1 << 14;
    c.resize(a.size());
    for_each_on(options_.feedback.threads, (a.size() + kSome - 1) / kSome, [&](std::size_t i) {
      for (std::size_t k = i * kSome; k < std::min(a.size(), (i + 1) * kSome); ++k)
        c[k] = a[k] - b[k];
    });
  }
  static std::vector<float> transposed(const std::vector<float>& a, std::size_t n) {
    std::vector<float> b(a.size());
    for (std::size_t i = 0; i < a.size() / n; ++i)
      for (std::size_t j = 0; j < n; ++j) b[j * n + i] = a[i * n + j];
    return b;
  }

  // Returns errors·H⁻¹, [rows][n]; nothing if that is not finite.
  [[nodiscard]] std::vector<float> answer_to(const std::vector<float>& errors,
                                             InputMoments& moments, std::size_t n,
                                             const Node& node) const {
    std::vector<float> answer(errors.size());
    matrices_.add_products_of(moments.take_inverse(), n, errors, answer);
    if (!std::isinf(largest_magnitude(answer))) return answer;
    note(node.name + ": earlier errors are not finite and stay unanswered");
    return {};
  }
  [[nodiscard]] std::vector<float> answer_by_input(const std::vector<float>& errors,
                                                   InputMoments& moments, std::size_t n,
                                                   const Node& node) const {
    return transposed(answer_to(errors, moments, n, node), n);
  }
  // Quantizes a tensor or some of its rows, unless the state has it.
  void quantize(const Matrix& m, const InputMoments* moments, const Correction& correction,
                const FeedbackOptions& feedback) {
    FeedbackLoss loss;
    if (!matrices_.is_finished(m))
      loss = matrices_.quantize(m, moments, correction, feedback, options_.check);
    options_.on_matrix(std::string(m.weight.name), m.weight.rows() * m.weight.cols(), loss);
  }

  // The present stream continues with the quantized matrix.
  void use(std::size_t node, std::size_t matrix) {
    present_.replace(node, matrix, matrices_.rows_of(model_.graph().nodes[node].matrices[matrix]));
  }

  // Means over the inputs of all experts.
  struct Pooled {
    Triangle squares{0};
    std::vector<float> errors;  // of the first products only
  };

  // The moments of an expert are its own, mixed with those of all experts. These weigh as much as
  // n tokens, the number of columns.
  void read_expert(const Node& node, const std::vector<std::uint32_t>& rows, const Pooled& pooled,
                   std::unique_ptr<InputMoments>& moments, Correction& correction) const {
    const std::size_t n = width_of(node.in);
    const bool has_errors = !pooled.errors.empty();
    SquareSums own = expert_sums(node.in, {rows});
    const double part = static_cast<double>(own.rows()) / static_cast<double>(own.rows() + n);
    const auto mix = [&](double a, double b) { return part * a + (1 - part) * b; };
    Triangle h = own.take_mean();
    std::ranges::transform(h.values(), pooled.squares.values(), h.values().begin(), mix);
    moments = moments_of(std::move(h), options_.feedback, has_errors);
    if (!has_errors || !moments) return;
    std::vector<float> errors = expert_errors(node.in, rows);
    std::ranges::transform(errors, pooled.errors, errors.begin(), mix);
    correction.by_input = answer_by_input(errors, *moments, n, node);
  }

  // Quantizes each expert with its own tokens.
  void quantize_experts(std::size_t i) {
    const Node& node = model_.graph().nodes[i];
    const bool down = node.as<ExpertsDownOp>() != nullptr;
    const std::size_t experts = down ? node.as<ExpertsDownOp>()->n : node.as<ExpertsUpOp>()->n;
    std::vector<std::vector<std::uint32_t>> rows;  // of the value, by expert
    Pooled pooled;
    if (!is_finished(node)) {
      present_.run_to(i);
      rows = rows_of_experts(i, experts, down);
      pooled.squares = expert_sums(node.in, down ? rows : every_row(node.in)).take_mean();
      if (!down) {
        exact_.run_to(i);
        pooled.errors = expert_errors(node.in, every_row(node.in).front());
      }
    }
    for (std::size_t e = 0; e < experts; ++e) {
      std::unique_ptr<InputMoments> moments;
      Correction correction;
      if (!rows.empty() && rows[e].empty())
        note(node.name + ": no token takes expert " + std::to_string(e) +
             ": the encoder alone is used");
      else if (!rows.empty())
        read_expert(node, rows[e], pooled, moments, correction);
      for (std::size_t k = e; k < node.matrices.size(); k += experts) {
        if (!matrices_.type_of(node.matrices[k])) continue;
        quantize(node.matrices[k], moments.get(), correction, options_.feedback);
        use(i, k);
      }
    }
  }

  // Products of errors with the present inputs, over some rows of a value that experts read.
  [[nodiscard]] std::vector<float> expert_errors(ValueId in,
                                                 const std::vector<std::uint32_t>& rows) const {
    const std::size_t n = width_of(in);
    ProductSums sums(n, n, kernels_, options_.feedback.threads);
    Columns inputs = columns_of(in), lacks = columns_of(in);
    std::vector<float> x, y;
    for (std::size_t begin = 0; begin < rows.size(); begin += tokens_.window) {
      const std::span<const std::uint32_t> some = some_of(rows, begin);
      copy_rows(exact_.rows(in), some, n, x);
      copy_rows(present_.rows(in), some, n, y);
      lacks.set_difference(x, y);
      inputs.set(y);
      sums.add(lacks, inputs);
    }
    return sums.take_mean();
  }
  [[nodiscard]] std::span<const std::uint32_t> some_of(const std::vector<std::uint32_t>& rows,
                                                       std::size_t begin) const {
    return std::span(rows).subspan(begin, std::min(tokens_.window, rows.size() - begin));
  }
  static void copy_rows(std::span<const float> values, std::span<const std::uint32_t> rows,
                        std::size_t n, std::vector<float>& to) {
    to.clear();
    for (const std::size_t row : rows) to.insert(to.end(), &values[row * n], &values[row * n] + n);
  }

  std::vector<std::vector<std::uint32_t>> rows_of_experts(std::size_t i, std::size_t experts,
                                                          bool down) {
    std::vector<std::vector<std::uint32_t>> rows(experts);
    const std::size_t of_window =
        tokens_.window * model_.graph().values[model_.graph().nodes[i].in].rows_per_token;
    present_.visit_experts(i, [&](std::size_t window, const ExpertRows& taken) {
      const std::size_t first = window * of_window;
      for (std::size_t e = 0; e < experts; ++e)
        for (std::size_t slot = taken.begin[e]; slot < taken.begin[e + 1]; ++slot)
          rows[e].push_back(static_cast<std::uint32_t>(first + (down ? slot : taken.token[slot])));
    });
    return rows;
  }
  [[nodiscard]] std::vector<std::vector<std::uint32_t>> every_row(ValueId value) const {
    std::vector<std::uint32_t> rows(present_.rows(value).size() / width_of(value));
    std::iota(rows.begin(), rows.end(), 0U);
    return {rows};
  }

  [[nodiscard]] SquareSums expert_sums(ValueId in,
                                       const std::vector<std::vector<std::uint32_t>>& rows) const {
    SquareSums sums = sums_of(in);
    Columns inputs = columns_of(in);
    std::vector<float> y;
    for (const std::vector<std::uint32_t>& list : rows) {
      for (std::size_t begin = 0; begin < list.size(); begin += tokens_.window) {
        copy_rows(present_.rows(in), some_of(list, begin), width_of(in), y);
        inputs.set(y);
        sums.add(inputs);
      }
    }
    return sums;
  }

  [[nodiscard]] std::uint64_t memory() const;

  const Model& model_;
  const CalibrationTokens& tokens_;
  const CalibrationOptions& options_;
  const KernelSet& kernels_;
  PlannedMatrices matrices_;
  LayerStream exact_, present_;
};

// The most that one node needs: what the streams keep; weights as floats, on the way to the node;
// sums and moments. H's triangle in double, H and a factor as floats or the inverse, and two
// triangles of the factorization are 16 bytes for each pair of columns at a time.
std::uint64_t Calibration::memory() const {
  const std::vector<Node>& nodes = model_.graph().nodes;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!wants(nodes[i])) continue;
    const Node& node = nodes[i];
    const std::uint64_t n = width_of(node.in), tokens = tokens_.ids.size();
    const bool residual = adds_to_stream(i);
    std::uint64_t bytes = 0, way = 0;
    const std::size_t start = exact_.narrow_place(i);
    const auto floats_in = [&](std::size_t k) {
      std::uint64_t floats = 0;
      for (const Matrix& m : nodes[k].matrices)
        if (m.multiplies()) floats += sizeof(float) * m.weight.rows() * m.weight.cols();
      return floats;
    };
    for (std::size_t k = start; k < i; ++k) way += floats_in(k);
    const std::uint64_t kept = sizeof(float) * tokens * exact_.kept_width(start);
    if (const HeadProductsOp* const heads = heads_of(node)) {
      const std::uint64_t width = node.matrices.front().weight.cols();
      bytes = 2 * (kept + way) + (12 * heads->n_heads + 36) * width * width;
    } else if (!node.facts.dense) {
      bytes = 2 * sizeof(float) * tokens * present_.kept_width(i) + 36 * n * n;
    } else {
      const std::uint64_t errors = n * (residual ? width_of(node.out) : n);
      std::uint64_t weights = residual ? sizeof(float) * errors : 0;
      if (exact_.place_after(i) > i) weights += floats_in(i);
      bytes =
          2 * kept + std::max(8 * errors + 4 * n * n + weights + 2 * way, 8 * errors + 16 * n * n);
    }
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace

std::uint64_t calibration_identity(const Model& model, const QuantizePlan& plan,
                                   const CalibrationTokens& tokens,
                                   const CalibrationOptions& options) {
  Hash hash;
  hash.add_number(kMethodVersion);
  hash.add_number(file_fingerprint(model));
  hash.add_number(computation_fingerprint(model, model.graph(), tokens.window));
  hash.add_number(std::uint64_t{tokens.window});
  hash.add(tokens.ids.data(), tokens.ids.size() * sizeof(TokenId));
  for (const PlannedTensor& tensor : plan.tensors) {
    hash.add(tensor.source->name.data(), tensor.source->name.size());
    hash.add_number(static_cast<std::uint64_t>(tensor.type));
  }
  for (const double damping : {options.feedback.damping, options.table_damping})
    hash.add_number(damping);
  for (const int times : {options.feedback.descents, options.feedback.refits})
    hash.add_number(std::int64_t{times});
  return hash.value();
}

void calibrate(const Model& model, const QuantizePlan& plan, const CalibrationTokens& tokens,
               const CalibrationOptions& options, CalibrationState& state) {
  Calibration(model, plan, tokens, options, state).run();
}

void declare_calibration(GgufWriter& writer, const std::string& texts, std::size_t tokens) {
  writer.set("quantize.calibration.method", "error feedback");
  writer.set("quantize.calibration.texts", texts);
  writer.set("quantize.calibration.tokens", static_cast<std::uint32_t>(tokens));
}

}  // namespace cria
