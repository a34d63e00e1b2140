// Weights as MLX packs them.
#include <cstring>
#include <vector>

#include "engine/convert/weight_rows.h"
#include "kernels/formats/f16.h"
#include "kernels/formats/formats.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr std::size_t kBlock = 32;

/// Codes of one width out of a row's bytes, the lowest bits first.
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

  /// Blocks with a scale and a minimum say what groups do, where blocks do not cross them.
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
    for (unsigned i = 0; i < kBlock;
         ++i) {  // the low nibbles are values 0 … 15, the high ones 16 … 31
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
  std::unique_ptr<WeightRows> scales_, biases_;
};

void expect_shape(const SafeTensor& tensor, const std::vector<std::uint64_t>& shape) {
  if (tensor.shape == shape) return;
  SafeTensor expected;
  expected.shape = shape;
  throw Error("",
              "shape does not fit MLX's form: expected " + expected.shape_string() + ", got " +
                  tensor.shape_string(),
              "tensor " + tensor.name);
}

}  // namespace

std::unique_ptr<WeightRows> mlx_rows(const SafeTensor& codes, const SafeTensor& scales,
                                     const SafeTensor& biases, const MlxPacking& packing,
                                     std::uint64_t rows, std::uint64_t cols) {
  const std::string where = "tensor " + codes.name;
  if (codes.type->name != "U32")
    throw Error("",
                "wrong type of packed weights: expected U32, got " + std::string(codes.type->name),
                where);
  if (cols % packing.group_size != 0 || cols * packing.bits % 32 != 0)
    throw Error("",
                "rows of " + counted(cols, "value") + " do not divide into groups of " +
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
