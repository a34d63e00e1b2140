// Directories of Hugging Face or MLX models into GGUF files, as a stream: memory stays at
// a piece of a tensor.
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
  std::optional<DType>
      type;  ///< of matrices; none: the one that says the same as the directory, or comes nearest
  std::string name;  ///< general.name; "": the directory's
  std::string pre;   ///< name of the pre-tokenizer; "": recognized
  unsigned threads = 1;
  const KernelSet* kernels = nullptr;
};

/// What became of a tensor.
struct ConvertedTensor {
  std::string name;  ///< in the GGUF file
  std::string form;  ///< in the directory: "BF16", "MLX 4 bits"
  DType type = DType::F32;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::optional<FormError> error;  ///< where a packed matrix was packed again
};

/// A conversion that was planned and checked; nothing is written before write().
class Conversion {
 public:
  /// Opens the directory; checks its config, the shape and type of every tensor, and the tokenizer.
  /// Throws Error naming the file and what is wrong with it.
  explicit Conversion(ConvertOptions options);
  ~Conversion();
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  [[nodiscard]] const std::vector<ConvertedTensor>& tensors()
      const;  ///< as planned, without errors
  [[nodiscard]] const std::vector<std::string>& warnings() const;
  [[nodiscard]] std::uint64_t file_bytes() const;
  /// Writes the file; on_tensor is called after each tensor, on_bytes after each piece with all
  /// bytes of data so far (false stops). False if it was stopped: the output is as it was. Throws
  /// Error.
  bool write(const std::function<bool(std::uint64_t bytes)>& on_bytes,
             const std::function<void(const ConvertedTensor&)>& on_tensor);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cria
