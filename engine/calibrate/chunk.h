// Some rows of a matrix on their way through feedback, descent and refitting.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "engine/calibrate/moments.h"
#include "engine/calibrate/row_codes.h"

namespace cria {

/// Inputs shared by the chunks of a matrix.
struct FeedbackInputs {
  const CodeFormat& format;
  const InputMoments& moments;
  const FeedbackOptions& options;
  const KernelSet& kernels;
  std::span<const std::uint32_t> order;  ///< order of columns
  std::span<const float> factor;         ///< Uᵀ in that order, [n][n]
  std::size_t width;                     ///< columns whose codes are chosen together: 1, 4 or 8
};

/// A symmetric matrix of up to eight columns that are chosen together.
using GroupMatrix = std::array<std::array<double, 8>, 8>;

/// The nearest code of an ascending grid; the lower one of two.
std::size_t nearest_code(const CodeFormat& format, float x);

/// Finds entries and signs of a codebook for groups of columns.
class EntrySearch {
 public:
  /// metric: what errors of the group's columns cost together, for weights of scale 1.
  EntrySearch(const CodeFormat& format, std::size_t width, const GroupMatrix& metric,
              const KernelSet& kernels);
  struct Found {
    std::array<std::uint16_t, 2> entry{};
    std::array<std::int16_t, 8> q{};
    double cost = 0;
  };
  /// The best found for targets in units of the scale. A short list by the metric's diagonal, then
  /// true costs and flips of signs.
  [[nodiscard]] Found find(const std::array<double, 8>& target) const;

 private:
  static constexpr std::size_t kShort = 12;
  struct Candidate {
    float cost;
    std::uint16_t entry;
  };
  using Candidates = std::array<Candidate, kShort>;
  Candidates shortlist(const double* target, std::size_t part, bool odd) const;
  void improve_signs(Found& found, const std::array<double, 8>& target) const;
  [[nodiscard]] double cost(const Found& found, const std::array<double, 8>& target) const;

  const CodeFormat& format_;
  std::size_t width_, parts_;
  GroupMatrix metric_;
  const KernelSet& kernels_;
  std::vector<float> planes_;   // [group][entries]
  std::vector<float> squares_;  // [parts][entries]: Σ metric[i][i]·entry[i]²
};

/// The inverse of the leading n×n part; of a positive definite matrix, or an upper triangle.
GroupMatrix inverse_of(const GroupMatrix& matrix, std::size_t n);

class FeedbackChunk {
 public:
  FeedbackChunk(const FeedbackInputs& inputs, std::span<const float> targets);
  /// Writes the rows as blocks.
  FeedbackLoss run(std::byte* out);

 private:
  struct Row {
    RowCodes codes;
    std::vector<float> values;                     // as the codes say
    std::vector<float> factor, inverse, constant;  // per column: value = factor·q + constant
  };
  /// Change of the loss by steps along two directions.
  struct Quadratic {
    double a = 0, b = 0, aa = 0, ab = 0, bb = 0;
    [[nodiscard]] double gain(double x, double y) const {
      return 2 * (x * a + y * b) + x * x * aa + 2 * x * y * ab + y * y * bb;
    }
  };
  [[nodiscard]] Quadratic quadratic(std::size_t begin, std::span<const double> a,
                                    std::span<const double> b, const float* gradient) const;
  void encode(std::byte* out);
  void set_scales(Row& row) const;
  void set_values(Row& row) const;
  void feed_back();
  void feed_back_column(std::size_t k, std::size_t end);
  void feed_back_group(std::size_t k, std::size_t end);
  bool descend();
  bool descend_columns(Row& row, float* gradient);
  bool descend_groups();
  void refit();
  void refit_block(Row& row, std::size_t block, float* gradient);
  void refit_sub_block(Row& row, std::size_t sub, float* gradient);
  void move(std::size_t begin, std::span<const double> delta, float* gradient) const;
  void gradients();  // (values - targets)·H of every row
  [[nodiscard]] std::vector<double> losses();
  void set_entry(Row& row, std::size_t first, const EntrySearch::Found& found);

  const FeedbackInputs in_;
  const std::span<const float> targets_;
  const std::size_t n_, n_rows_;
  std::vector<Row> rows_;
  std::vector<float> rest_;      // [rows][n], in order: what is still wanted of each column
  std::vector<float> answered_;  // [rows][n], in order: minus the errors, as the factor wants them
  std::vector<float> gradient_;  // [rows][n]
};

}  // namespace cria
