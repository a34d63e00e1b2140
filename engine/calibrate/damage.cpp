#include "engine/calibrate/damage.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/calibrate/feedback.h"
#include "engine/evaluate/divergence.h"

namespace cria {
namespace {

constexpr std::size_t kSampledRows = 256;  // of a tensor, for t
constexpr double kLeastDamage = 1e-12;     // a larger type must always be the better one
constexpr DType kProbes[] = {DType::Q3_K, DType::Q4_0};

// The place of a tensor, or of some of its rows, in the graph.
struct Use {
  std::size_t node, matrix;
};

class DamageRun {
 public:
  DamageRun(const Model& model, const CalibrationTokens& tokens, const DamageOptions& options)
      : model_(model),
        tokens_(tokens),
        options_(options),
        kernels_(options.kernels != nullptr ? *options.kernels : kernels_in_use()),
        exact_(model, tokens, kernels_, options.threads),
        probe_(model, tokens, kernels_, options.threads) {}

  std::vector<std::vector<TypeCost>> run(std::span<const TensorView* const> tensors) {
    read_exact_logits();
    std::vector<std::vector<TypeCost>> costs(tensors.size());
    std::vector<std::size_t> order(tensors.size());  // by first use: the exact stream goes forward
    std::vector<std::vector<Use>> uses(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) order[i] = i, uses[i] = uses_of(*tensors[i]);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) {
      return uses[i].empty() ? model_.graph().nodes.size() : uses[i].front().node;
    });
    double damage = 0, weights = 0;  // of evaluated tensors
    for (std::size_t done = 0; done < order.size(); ++done) {
      const TensorView& tensor = *tensors[order[done]];
      const auto n = static_cast<double>(tensor.rows() * tensor.cols());
      const auto probe = std::ranges::find_if(
          kProbes, [&](DType type) { return dividing_type(tensor, type) == type; });
      if (probe == std::end(kProbes)) {
        costs[order[done]] = {{DType::F16, bytes_in(tensor, DType::F16), 0}};
      } else {
        const std::vector<float> importance = importance_of(tensor, uses[order[done]]);
        double divergence = weights > 0 ? damage / weights * n : 0;
        if (!uses[order[done]].empty()) {
          divergence = divergence_in(tensor, *probe, importance, uses[order[done]]);
          damage += divergence;
          weights += n;
        }
        costs[order[done]] = costs_of(tensor, *probe, divergence, importance);
      }
      if (options_.on_tensor && !options_.on_tensor(done + 1, order.size())) return {};
    }
    return costs;
  }

 private:
  static std::uint64_t bytes_in(const TensorView& tensor, DType type) {
    return dtype_info(type).row_bytes(tensor.cols()) * tensor.rows();
  }

  [[nodiscard]] std::vector<Use> uses_of(const TensorView& tensor) const {
    std::vector<Use> uses;
    const std::vector<Node>& nodes = model_.graph().nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (std::size_t k = 0; k < nodes[i].matrices.size(); ++k)
        if (nodes[i].matrices[k].weight.name == tensor.name) uses.push_back({i, k});
    return uses;
  }

  void read_exact_logits() {
    probe_.run_to(model_.graph().nodes.size() - 1);
    probe_.visit_logits(tokens_.window / 2, [&](std::size_t, std::size_t, auto logits) {
      logits_.insert(logits_.end(), logits.begin(), logits.end());
    });
  }

  // Returns the weight of each column: the mean square of its inputs, by expert if they differ.
  // Columns of a table that is only looked up have equal weights.
  std::vector<float> importance_of(const TensorView& tensor, const std::vector<Use>& uses) {
    if (!uses.empty()) exact_.run_to(std::min(uses.front().node, model_.graph().nodes.size() - 1));
    if (options_.importance != nullptr) {
      const std::vector<float> known =
          options_.importance->weights(tensor.name, tensor.cols(), matrices_of(tensor));
      if (!known.empty()) return known;
    }
    std::vector<float> means(tensor.cols(), 1.0F);
    const bool multiplies =
        !uses.empty() &&
        model_.graph().nodes[uses.front().node].matrices[uses.front().matrix].multiplies();
    if (!multiplies) return means;
    const std::span<const float> x = exact_.rows(model_.graph().nodes[uses.front().node].in);
    if (x.empty() || x.size() % means.size() != 0) return means;  // products of heads
    std::vector<double> sums(means.size());
    for (std::size_t i = 0; i < x.size(); ++i) sums[i % sums.size()] += double{x[i]} * x[i];
    for (std::size_t j = 0; j < sums.size(); ++j)
      means[j] = static_cast<float>(sums[j] * static_cast<double>(sums.size()) /
                                    static_cast<double>(x.size()));
    return means;
  }

  // The importance of a row's columns.
  static const float* weights_of(const TensorView& tensor, const std::vector<float>& importance,
                                 std::size_t row) {
    const std::size_t expert =
        importance.size() == tensor.cols() ? 0 : row / (tensor.rows() / matrices_of(tensor));
    const float* const weights = &importance[expert * tensor.cols()];
    // An expert without tokens has no importance.
    return std::any_of(weights, weights + tensor.cols(), [](float w) { return w > 0; }) ? weights
                                                                                        : nullptr;
  }

  static void read_row(const TensorView& tensor, std::size_t row, std::vector<float>& values) {
    values.resize(tensor.cols());
    dtype_info(tensor.dtype)
        .dequantize(tensor.data + row * tensor.row_bytes(), values.data(), tensor.cols());
  }

  // The KL divergence with this tensor alone in a type.
  double divergence_in(const TensorView& tensor, DType type, const std::vector<float>& importance,
                       const std::vector<Use>& uses) {
    const std::size_t row_bytes = dtype_info(type).row_bytes(tensor.cols());
    std::vector<std::byte> blocks(bytes_in(tensor, type));
    for_each_on(options_.threads, tensor.rows(), [&](std::size_t row) {
      thread_local std::vector<float> values;
      read_row(tensor, row, values);
      kernels_.encode(type)(values.data(), weights_of(tensor, importance, row), tensor.cols(),
                            &blocks[row * row_bytes]);
    });
    probe_.start_from(exact_);
    for (const auto& [node, matrix] : uses) {
      TensorView rows = model_.graph().nodes[node].matrices[matrix].weight;
      const std::size_t first =
          static_cast<std::size_t>(rows.data - tensor.data) / tensor.row_bytes();
      rows.dtype = type;
      rows.data = &blocks[first * row_bytes];
      probe_.replace(node, matrix, rows);
    }
    probe_.run_to(model_.graph().nodes.size() - 1);
    double sum = 0;
    std::size_t at = 0;
    probe_.visit_logits(tokens_.window / 2, [&](std::size_t, std::size_t, auto logits) {
      const std::span<const float> exact(&logits_[at], logits.size());
      at += logits.size();
      sum += compare_token(kernels_, logits, kernels_.log_sum_exp(logits.data(), logits.size()),
                           exact, 0)
                 .divergence;
    });
    const double mean =
        sum * static_cast<double>(model_.vocabulary_size()) / static_cast<double>(logits_.size());
    if (!std::isfinite(mean))
      throw Error(model_.path(), "NaN or infinity when the model is evaluated",
                  "tensor " + std::string(tensor.name));
    return std::max(mean, kLeastDamage);
  }

  // The weighed squared error of some rows, spread over the tensor.
  double error_in(const TensorView& tensor, DType type,
                  const std::vector<float>& importance) const {
    const DTypeInfo& info = dtype_info(type);
    const std::size_t cols = tensor.cols(),
                      rows = std::min<std::size_t>(kSampledRows, tensor.rows());
    std::vector<double> errors(rows);
    for_each_on(options_.threads, rows, [&](std::size_t i) {
      thread_local std::vector<float> values, decoded;
      thread_local std::vector<std::byte> blocks;
      const std::size_t row = i * tensor.rows() / rows;
      read_row(tensor, row, values);
      decoded.resize(cols);
      blocks.resize(info.row_bytes(cols));
      const float* const weights = weights_of(tensor, importance, row);
      if (info.is_float()) return;  // F16
      kernels_.encode(type)(values.data(), weights, cols, blocks.data());
      info.dequantize(blocks.data(), decoded.data(), cols);
      for (std::size_t j = 0; j < cols; ++j) {
        const double error = double{values[j]} - decoded[j];
        errors[i] += (weights != nullptr ? weights[j] : 1.0F) * error * error;
      }
    });
    double sum = 0;
    for (const double error : errors) sum += error;
    return sum;
  }

  [[nodiscard]] std::vector<TypeCost> costs_of(const TensorView& tensor, DType probe,
                                               double divergence,
                                               const std::vector<float>& importance) const {
    std::set<DType> types;
    for (const DType type : options_.types) types.insert(dividing_type(tensor, type));
    const double of_probe = error_in(tensor, probe, importance);
    std::vector<TypeCost> costs;
    for (const DType type : types) {
      const double error = error_in(tensor, type, importance);
      costs.push_back(
          {type, bytes_in(tensor, type), of_probe > 0 ? divergence * error / of_probe : 0});
    }
    std::ranges::sort(costs, {}, [](const TypeCost& c) { return std::pair(c.bytes, c.damage); });
    return costs;
  }

  const Model& model_;
  const CalibrationTokens& tokens_;
  const DamageOptions& options_;
  const KernelSet& kernels_;
  LayerStream exact_, probe_;
  std::vector<float> logits_;  // exact, of the compared tokens
};

}  // namespace

std::vector<std::vector<TypeCost>> measure_damage(const Model& model,
                                                  std::span<const TensorView* const> tensors,
                                                  const CalibrationTokens& tokens,
                                                  const DamageOptions& options) {
  return DamageRun(model, tokens, options).run(tensors);
}

}  // namespace cria
