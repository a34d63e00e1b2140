// Synthetic models: valid GGUF files of a real model's shape with random weights of one type, to
// compare types and machines without a download.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/formats/dtype.h"

namespace cria {

/// One line of bench/shapes.txt.
struct ModelShape {
  std::string name;  ///< "1.1b"
  std::uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx;
  std::string model;  ///< the real model
  std::string arch = "llama";
  /// Further keys, without the prefix.
  std::vector<std::pair<std::string, std::string>> keys = {};
  std::vector<std::string> tensors = {"output.weight"};  ///< optional tensors to write
};
/// The known shapes (compiled in), in the order of the file.
const std::vector<ModelShape>& model_shapes();
/// Throws Error listing the known names.
const ModelShape& find_shape(std::string_view name);

/// Writes a model with matrices of the given type and a vocabulary of placeholder words. If the
/// type's blocks do not divide rows, they get its replacement in `quantize`; routers are F32. Equal
/// seeds give equal bytes. Throws Error if the file cannot be written.
void write_synthetic(const ModelShape& shape, DType type, const std::string& path,
                     std::uint64_t seed = 1);

/// The same with all values 0, as a sparse file: for plans that do not depend on values.
void write_hollow(const ModelShape& shape, DType type, const std::string& path);

/// Fills rows of cols values (a multiple of the block) with random blocks. Values have mean 0 and
/// root mean square 0.02, as in trained matrices. Equal seeds give equal bytes. The type must be
/// usable as a weight matrix.
void fill_random_weights(DType type, std::size_t rows, std::size_t cols, std::byte* out,
                         std::uint64_t seed);

}  // namespace cria
