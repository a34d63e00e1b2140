#include "engine/convert/weight_rows.h"

#include <cstring>

namespace cria {
namespace {

/// Rows that lie in a file as floats or blocks of a type.
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

}  // namespace

std::unique_ptr<WeightRows> float_rows(const SafeTensor& tensor, std::uint64_t rows,
                                       std::uint64_t cols) {
  if (!is_float(*tensor.type))
    throw Error("",
                "type that is not converted: expected F64, F32, F16 or BF16, got " +
                    std::string(tensor.type->name),
                "tensor " + tensor.name);
  return std::make_unique<StoredRows>(tensor.data.data(), *tensor.type->dtype, rows, cols);
}

std::unique_ptr<WeightRows> gguf_rows(const TensorView& tensor, std::uint64_t rows,
                                      std::uint64_t cols) {
  return std::make_unique<StoredRows>(tensor.data, tensor.dtype, rows, cols);
}

}  // namespace cria
