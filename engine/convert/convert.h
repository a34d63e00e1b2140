// Converts directories of Hugging Face or MLX models to GGUF files as a stream: only a piece of a
// tensor is in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/convert/row_stream.h"

namespace cria {

struct ConvertOptions {
  std::string directory, output;
  std::optional<DType> type;  ///< type of matrices; nullopt: the directory's, or the nearest
  std::string name;           ///< general.name; "": the directory's
  std::string pre;            ///< name of the pre-tokenizer; "": detected
  unsigned threads = 1;
  const KernelSet* kernels = nullptr;
};

/// A tensor of the GGUF file.
struct ConvertedTensor {
  std::string name;  ///< in the GGUF file
  std::string form;  ///< in the directory: "BF16", "MLX 4 bits"
  DType type = DType::F32;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::optional<FormError> error;  ///< if a packed matrix was packed again
};

/// A planned and checked conversion; only write() writes.
class Conversion {
 public:
  /// Opens the directory; checks its config, the shape and type of every tensor, and the tokenizer.
  /// Throws Error naming the file and what is wrong with it.
  explicit Conversion(ConvertOptions options);
  ~Conversion();
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  /// The planned tensors, without errors.
  [[nodiscard]] const std::vector<ConvertedTensor>& tensors() const;
  [[nodiscard]] const std::vector<std::string>& warnings() const;
  [[nodiscard]] std::uint64_t file_bytes() const;
  /// Writes the file. Calls on_tensor after each tensor, and on_bytes after each piece with the
  /// bytes so far. If on_bytes returns false, write() returns false and leaves the output
  /// unchanged. Throws Error.
  bool write(const std::function<bool(std::uint64_t bytes)>& on_bytes,
             const std::function<void(const ConvertedTensor&)>& on_tensor);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cria
