#include "engine/convert/arranged_rows.h"

#include <algorithm>
#include <utility>

#include "model/plural.h"

namespace cria {
namespace {

class ArrangedRows : public WeightRows {
 public:
  using Source = std::function<std::uint64_t(std::uint64_t row)>;

  ArrangedRows(std::vector<std::unique_ptr<WeightRows>> parts, std::uint64_t rows, Source source)
      : WeightRows(rows, parts.front()->cols()),
        parts_(std::move(parts)),
        source_(std::move(source)) {
    std::uint64_t begin = 0;
    for (const auto& part : parts_) begins_.push_back(std::exchange(begin, begin + part->rows()));
  }

  void read(std::uint64_t row, float* out) const override {
    const auto [part, from] = find(row);
    parts_[part]->read(from, out);
  }
  bool copy(std::uint64_t row, DType type, std::byte* out) const override {
    const auto [part, from] = find(row);
    return parts_[part]->copy(from, type, out);
  }
  [[nodiscard]] DType nearest() const override { return parts_.front()->nearest(); }
  [[nodiscard]] std::string form() const override { return parts_.front()->form(); }
  [[nodiscard]] bool packed() const override { return parts_.front()->packed(); }

 private:
  [[nodiscard]] std::pair<std::size_t, std::uint64_t> find(std::uint64_t row) const {
    const std::uint64_t from = source_(row);
    const auto part = std::ranges::upper_bound(begins_, from) - begins_.begin() - 1;
    return {static_cast<std::size_t>(part), from - begins_[static_cast<std::size_t>(part)]};
  }

  std::vector<std::unique_ptr<WeightRows>> parts_;
  Source source_;
  std::vector<std::uint64_t> begins_;  ///< of the parts, among the rows of all
};

class RowsPlus : public WeightRows {
 public:
  RowsPlus(std::unique_ptr<WeightRows> rows, float term)
      : WeightRows(rows->rows(), rows->cols()), rows_(std::move(rows)), term_(term) {}

  void read(std::uint64_t row, float* out) const override {
    rows_->read(row, out);
    for (std::uint64_t i = 0; i < cols(); ++i) out[i] += term_;
  }
  [[nodiscard]] DType nearest() const override { return DType::F32; }
  [[nodiscard]] std::string form() const override { return rows_->form(); }

 private:
  std::unique_ptr<WeightRows> rows_;
  float term_;
};

class ColumnRows : public WeightRows {
 public:
  ColumnRows(std::unique_ptr<WeightRows> values, std::uint64_t rows, std::uint64_t cols,
             std::uint64_t rows_of_expert, ColumnChoice choice)
      : WeightRows(rows, cols),
        values_(std::move(values)),
        rows_of_expert_(rows_of_expert),
        choice_(choice) {}

  void read(std::uint64_t row, float* out) const override {
    const std::uint64_t expert = row / rows_of_expert_;
    const std::uint64_t column = row % rows_of_expert_ * choice_.step + choice_.offset;
    for (std::uint64_t i = 0; i < cols(); ++i)
      values_->read((expert * cols() + i) * choice_.of + column, out + i);
  }
  [[nodiscard]] DType nearest() const override { return values_->nearest(); }
  [[nodiscard]] std::string form() const override { return values_->form(); }

 private:
  std::unique_ptr<WeightRows> values_;  // rows of one
  std::uint64_t rows_of_expert_;
  ColumnChoice choice_;
};

// In a block of MXFP4 byte i has values i and i + 16, here it has 2i and 2i + 1.
class Fp4Rows : public WeightRows {
 public:
  static constexpr std::uint64_t kBlock = 32, kCodeBytes = 16;

  Fp4Rows(const SafeTensor& codes, const SafeTensor& scales, std::uint64_t rows, std::uint64_t cols)
      : WeightRows(rows, cols), codes_(codes.data.data()), scales_(scales.data.data()) {}

  bool copy(std::uint64_t row, DType type, std::byte* out) const override {
    if (type != DType::MXFP4) return false;
    for (std::uint64_t block = 0; block < cols() / kBlock; ++block) {
      const std::uint64_t at = row * (cols() / kBlock) + block;
      const std::byte* const codes = codes_ + at * kCodeBytes;
      const auto code = [&](std::uint64_t i) {
        return i % 2 == 0 ? codes[i / 2] & std::byte{15} : codes[i / 2] >> 4;
      };
      *out++ = scales_[at];
      for (std::uint64_t i = 0; i < kCodeBytes; ++i) *out++ = code(i) | code(i + kCodeBytes) << 4;
    }
    return true;
  }
  void read(std::uint64_t row, float* out) const override {
    std::vector<std::byte> blocks(dtype_info(DType::MXFP4).row_bytes(cols()));
    static_cast<void>(copy(row, DType::MXFP4, blocks.data()));
    dtype_info(DType::MXFP4).dequantize(blocks.data(), out, cols());
  }
  [[nodiscard]] DType nearest() const override { return DType::MXFP4; }
  [[nodiscard]] std::string form() const override { return "MXFP4"; }

 private:
  const std::byte* codes_;
  const std::byte* scales_;
};

}  // namespace

std::unique_ptr<WeightRows> arranged_rows(std::vector<std::unique_ptr<WeightRows>> parts,
                                          std::uint64_t rows,
                                          std::function<std::uint64_t(std::uint64_t row)> source) {
  return std::make_unique<ArrangedRows>(std::move(parts), rows, std::move(source));
}

std::unique_ptr<WeightRows> rows_plus(std::unique_ptr<WeightRows> rows, float term) {
  return std::make_unique<RowsPlus>(std::move(rows), term);
}

std::unique_ptr<WeightRows> column_rows(const SafeTensor& tensor, std::uint64_t rows,
                                        std::uint64_t cols, std::uint64_t rows_of_expert,
                                        ColumnChoice choice) {
  return std::make_unique<ColumnRows>(float_rows(tensor, tensor.values(), 1), rows, cols,
                                      rows_of_expert, choice);
}

std::unique_ptr<WeightRows> fp4_rows(const SafeTensor& codes, const SafeTensor& scales,
                                     std::uint64_t rows, std::uint64_t cols) {
  for (const SafeTensor* const tensor : {&codes, &scales}) {
    const std::uint64_t expected =
        rows * (cols / Fp4Rows::kBlock) * (tensor == &codes ? Fp4Rows::kCodeBytes : 1);
    if (tensor->type->name != "U8")
      throw Error("", "wrong type: expected U8, got " + std::string(tensor->type->name),
                  "tensor " + tensor->name);
    if (tensor->data.size() != expected || cols % Fp4Rows::kBlock != 0)
      throw Error(
          "",
          "wrong shape: expected " + counted(expected, "byte") + ", got " + tensor->shape_string(),
          "tensor " + tensor->name);
  }
  return std::make_unique<Fp4Rows>(codes, scales, rows, cols);
}

}  // namespace cria
