#include "engine/convert/row_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/formats/formats.h"
#include "kernels/simd/round.h"
#include "model/plural.h"

namespace cria {
namespace {

/// Rows stored as floats or blocks of a type.
class StoredRows : public WeightRows {
 public:
  StoredRows(const std::byte* data, DType type, std::uint64_t rows, std::uint64_t cols)
      : WeightRows(rows, cols),
        data_(data),
        type_(dtype_info(type)),
        row_bytes_(type_.row_bytes(cols)) {}

  void read(std::uint64_t row, float* out) const override {
    type_.dequantize(data_ + row * row_bytes_, out, cols());
  }
  bool copy(std::uint64_t row, DType type, std::byte* out) const override {
    if (type != type_.id) return false;
    std::memcpy(out, data_ + row * row_bytes_, row_bytes_);
    return true;
  }
  [[nodiscard]] DType nearest() const override {
    return type_.id == DType::F64 ? DType::F32 : type_.id;
  }
  [[nodiscard]] std::string form() const override { return std::string(type_.name); }

 private:
  const std::byte* data_;
  const DTypeInfo& type_;
  std::size_t row_bytes_;
};

bool is_float(const SafetensorsType& type) {
  return type.dtype == DType::F64 || type.dtype == DType::F32 || type.dtype == DType::F16 ||
         type.dtype == DType::BF16;
}

class ArrangedRows : public WeightRows {
 public:
  using Source = std::function<std::uint64_t(std::uint64_t row)>;

  ArrangedRows(std::vector<WeightRowsPtr> parts, std::uint64_t rows, Source source)
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

  std::vector<WeightRowsPtr> parts_;
  Source source_;
  std::vector<std::uint64_t> begins_;  ///< first rows of the parts
};

/// Each row is computed by itself.
class ComputedRows : public WeightRows {
 public:
  ComputedRows(std::uint64_t rows, std::uint64_t cols, DType nearest, ReadRow read,
               std::string form)
      : WeightRows(rows, cols), nearest_(nearest), read_(std::move(read)), form_(std::move(form)) {}

  void read(std::uint64_t row, float* out) const override { read_(row, out); }
  [[nodiscard]] DType nearest() const override { return nearest_; }
  [[nodiscard]] std::string form() const override { return form_; }

 private:
  DType nearest_;
  ReadRow read_;
  std::string form_;
};

using SharedRows = std::shared_ptr<const WeightRows>;

/// Rows of the form, type and size of others.
WeightRowsPtr rows_like(const WeightRows& other, ReadRow read) {
  return std::make_unique<ComputedRows>(other.rows(), other.cols(), other.nearest(),
                                        std::move(read), other.form());
}

// Byte i has values 2i and 2i + 1; in a block of GGUF, i and i + 16.
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

 private:
  const std::byte* codes_;
  const std::byte* scales_;
};

constexpr std::size_t kBlock = 32;

/// Reads codes of equal width from a row's bytes, lowest bits first.
class Codes {
 public:
  Codes(const std::byte* bytes, unsigned bits) : bytes_(bytes), bits_(bits) {}
  std::uint32_t next() {
    while (have_ < bits_) {
      buffer_ |= std::to_integer<std::uint32_t>(*bytes_++) << have_;
      have_ += 8;
    }
    const std::uint32_t code = buffer_ & ((1U << bits_) - 1);
    buffer_ >>= bits_;
    have_ -= bits_;
    return code;
  }

 private:
  const std::byte* bytes_;
  unsigned bits_, have_ = 0;
  std::uint32_t buffer_ = 0;
};

class MlxRows : public WeightRows {
 public:
  MlxRows(const SafeTensor& codes, const SafeTensor& scales, const SafeTensor& biases,
          const MlxPacking& packing, std::uint64_t rows, std::uint64_t cols)
      : WeightRows(rows, cols),
        packing_(packing),
        codes_(codes.data.data()),
        row_bytes_(cols * packing.bits / 8),
        scales_(float_rows(scales, rows, cols / packing.group_size)),
        biases_(float_rows(biases, rows, cols / packing.group_size)) {}

  void read(std::uint64_t row, float* out) const override {
    const Groups groups = read_groups(row);
    Codes codes(codes_ + row * row_bytes_, packing_.bits);
    for (std::size_t g = 0; g < groups.scales.size(); ++g) {
      for (std::uint32_t i = 0; i < packing_.group_size; ++i)
        *out++ = groups.scales[g] * static_cast<float>(codes.next()) + groups.biases[g];
    }
  }

  // Blocks with a scale and a minimum are exact unless they cross groups.
  bool copy(std::uint64_t row, DType type, std::byte* out) const override {
    if (type != nearest() || (type != DType::Q4_1 && type != DType::Q5_1)) return false;
    const Groups groups = read_groups(row);
    Codes codes(codes_ + row * row_bytes_, packing_.bits);
    for (std::size_t at = 0; at < cols(); at += kBlock) {
      const std::size_t g = at / packing_.group_size;
      out += type == DType::Q4_1 ? put<BlockQ4_1>(groups.scales[g], groups.biases[g], codes, out)
                                 : put<BlockQ5_1>(groups.scales[g], groups.biases[g], codes, out);
    }
    return true;
  }

  [[nodiscard]] DType nearest() const override {
    const bool same_codes = packing_.bits <= 5 && packing_.group_size % kBlock == 0;
    if (same_codes) return packing_.bits <= 4 ? DType::Q4_1 : DType::Q5_1;
    return packing_.bits == 8 && cols() % kBlock == 0 ? DType::Q8_0 : scales_->nearest();
  }
  [[nodiscard]] std::string form() const override {
    return "MLX " + std::to_string(packing_.bits) + " bits";
  }
  [[nodiscard]] bool packed() const override { return true; }

 private:
  struct Groups {
    std::vector<float> scales, biases;
  };
  [[nodiscard]] Groups read_groups(std::uint64_t row) const {
    Groups groups{std::vector<float>(scales_->cols()), std::vector<float>(scales_->cols())};
    scales_->read(row, groups.scales.data());
    biases_->read(row, groups.biases.data());
    return groups;
  }

  template <typename Block>
  static std::size_t put(float scale, float bias, Codes& codes, std::byte* out) {
    Block block = {};
    block.d = f32_to_f16(scale);
    block.m = f32_to_f16(bias);
    for (unsigned i = 0; i < kBlock; ++i) {  // low nibbles: values 0 … 15, high ones: 16 … 31
      const std::uint32_t code = codes.next();
      block.lo[i % 16] =
          static_cast<std::uint8_t>(block.lo[i % 16] | (code & 15) << (i < 16 ? 0 : 4));
      if constexpr (requires { block.hi; }) block.hi |= code >> 4 << i;
    }
    std::memcpy(out, &block, sizeof block);
    return sizeof block;
  }

  MlxPacking packing_;
  const std::byte* codes_;
  std::size_t row_bytes_;
  WeightRowsPtr scales_, biases_;
};

void expect_shape(const SafeTensor& tensor, const std::vector<std::uint64_t>& shape) {
  if (tensor.shape == shape) return;
  SafeTensor expected;
  expected.shape = shape;
  throw Error("",
              "wrong shape for MLX's form: expected " + expected.shape_string() + ", got " +
                  tensor.shape_string(),
              "tensor " + tensor.name);
}

}  // namespace

WeightRowsPtr float_rows(const SafeTensor& tensor, std::uint64_t rows, std::uint64_t cols) {
  if (!is_float(*tensor.type))
    throw Error(
        "",
        "unsupported type: expected F64, F32, F16 or BF16, got " + std::string(tensor.type->name),
        "tensor " + tensor.name);
  return std::make_unique<StoredRows>(tensor.data.data(), *tensor.type->dtype, rows, cols);
}

WeightRowsPtr gguf_rows(const TensorView& tensor, std::uint64_t rows, std::uint64_t cols) {
  return std::make_unique<StoredRows>(tensor.data, tensor.dtype, rows, cols);
}

WeightRowsPtr arranged_rows(std::vector<WeightRowsPtr> parts, std::uint64_t rows,
                            std::function<std::uint64_t(std::uint64_t row)> source) {
  return std::make_unique<ArrangedRows>(std::move(parts), rows, std::move(source));
}

WeightRowsPtr computed_rows(std::uint64_t rows, std::uint64_t cols, DType nearest, ReadRow read) {
  return std::make_unique<ComputedRows>(rows, cols, nearest, std::move(read),
                                        std::string(name(nearest)));
}

WeightRowsPtr padded_rows(WeightRowsPtr rows, std::uint64_t n) {
  const SharedRows from = std::move(rows);
  const auto read = [from](std::uint64_t row, float* out) {
    if (row < from->rows()) return from->read(row, out);
    std::fill_n(out, from->cols(), 0.0F);
  };
  return std::make_unique<ComputedRows>(n, from->cols(), from->nearest(), read, from->form());
}

WeightRowsPtr mapped_rows(WeightRowsPtr rows, std::function<float(float)> map) {
  const SharedRows from = std::move(rows);
  const auto read = [from, map = std::move(map)](std::uint64_t row, float* out) {
    from->read(row, out);
    std::transform(out, out + from->cols(), out, map);
  };
  return std::make_unique<ComputedRows>(from->rows(), from->cols(), DType::F32, read, from->form());
}

WeightRowsPtr scaled_rows(WeightRowsPtr rows, std::function<double(std::uint64_t row)> factor) {
  const SharedRows from = std::move(rows);
  return rows_like(*from, [from, factor = std::move(factor)](std::uint64_t row, float* out) {
    from->read(row, out);
    const double scale = factor(row);
    for (std::uint64_t i = 0; i < from->cols(); ++i) out[i] = static_cast<float>(scale * out[i]);
  });
}

WeightRowsPtr arranged_columns(WeightRowsPtr rows,
                               const std::function<std::uint64_t(std::uint64_t)>& source) {
  const SharedRows from = std::move(rows);
  std::vector<std::uint64_t> sources;
  for (std::uint64_t i = 0; i < from->cols(); ++i) sources.push_back(source(i));
  return rows_like(*from, [from, sources](std::uint64_t row, float* out) {
    std::vector<float> values(from->cols());
    from->read(row, values.data());
    for (std::size_t i = 0; i < sources.size(); ++i) out[i] = values[sources[i]];
  });
}

WeightRowsPtr column_rows(const SafeTensor& tensor, std::uint64_t rows, std::uint64_t cols,
                          std::uint64_t rows_of_expert, ColumnChoice choice) {
  const SharedRows values = float_rows(tensor, tensor.values(), 1);
  const auto read = [=](std::uint64_t row, float* out) {
    const std::uint64_t column = row % rows_of_expert * choice.step + choice.offset;
    const std::uint64_t first = row / rows_of_expert * (choice.rows == 0 ? cols : choice.rows);
    for (std::uint64_t i = 0; i < cols; ++i)
      values->read((first + i) * choice.of + column, out + i);
  };
  return std::make_unique<ComputedRows>(rows, cols, values->nearest(), read, values->form());
}

WeightRowsPtr fp4_rows(const SafeTensor& codes, const SafeTensor& scales, std::uint64_t rows,
                       std::uint64_t cols) {
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

WeightRowsPtr mlx_rows(const SafeTensor& codes, const SafeTensor& scales, const SafeTensor& biases,
                       const MlxPacking& packing, std::uint64_t rows, std::uint64_t cols) {
  const std::string where = "tensor " + codes.name;
  if (codes.type->name != "U32")
    throw Error("",
                "wrong type of packed weights: expected U32, got " + std::string(codes.type->name),
                where);
  if (cols % packing.group_size != 0 || cols * packing.bits % 32 != 0)
    throw Error("",
                "rows of " + counted(cols, "value") + " are not divisible into groups of " +
                    std::to_string(packing.group_size) + " and words of 32 bits",
                where);
  const std::uint64_t words = cols * packing.bits / 32;
  std::vector<std::uint64_t> shape = {rows, words};
  if (codes.shape.size() > 2 && codes.shape.back() == words && codes.values() == rows * words)
    shape = codes.shape;  // stacked matrices
  expect_shape(codes, shape);
  shape.back() = cols / packing.group_size;
  expect_shape(scales, shape);
  expect_shape(biases, shape);
  return std::make_unique<MlxRows>(codes, scales, biases, packing, rows, cols);
}

}  // namespace cria
