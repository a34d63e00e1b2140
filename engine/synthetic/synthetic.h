// Models that do not exist: valid GGUF files of a real model's shape with random weights of one
// type, so that anybody can compare types and machines without a download.
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
  std::string model;  ///< the model it is the shape of
  std::string arch = "llama";
  std::vector<std::pair<std::string, std::string>> keys =
      {};  ///< beyond the usual ones, without the prefix
  std::vector<std::string> tensors = {
      "output.weight"};  ///< those that a description can do without
};
/// The shapes known, in the file's order (compiled in).
const std::vector<ModelShape>& model_shapes();
/// The shape of that name; throws Error that lists the known ones.
const ModelShape& find_shape(std::string_view name);

/// Writes a model of the shape, every matrix of the given type (or, where rows do not divide into
/// its blocks, of the type that stands in for it when a model is quantized; routers are F32), with
/// a vocabulary of placeholder words. The same seed gives the same bytes. Throws Error if the file
/// cannot be written.
void write_synthetic(const ModelShape& shape, DType type, const std::string& path,
                     std::uint64_t seed = 1);

/// The same with all values 0, which take no place on the disk: a file to plan with, for what does
/// not depend on values.
void write_hollow(const ModelShape& shape, DType type, const std::string& path);

}  // namespace cria
