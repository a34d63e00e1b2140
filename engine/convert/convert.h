// Conversions as streams, with only a piece of a tensor in memory: directories of Hugging Face or
// MLX models to GGUF files, GGUF files to directories, and adapters merged into a GGUF file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/convert/row_stream.h"
#include "engine/lora/adapters.h"
#include "kernels/kernels.h"

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

struct ExportOptions {
  /// The directory must be new, or empty and neither a mount point nor the working directory.
  std::string file, directory;
  std::optional<DType> type;  ///< F32, F16 or BF16, of all matrices; nullopt: F16 unless float
  std::uint64_t shard_bytes = std::uint64_t{5} << 30;  ///< max bytes of data per file
  unsigned threads = 1;
  const KernelSet* kernels = nullptr;
};

struct ExportedTensor {
  std::string name;  ///< Hugging Face's
  DType from = DType::F32, type = DType::F32;
  std::vector<std::uint64_t> shape;  ///< rows first
  std::uint64_t bytes = 0;
};

/// A planned and checked export; only write() writes.
class Export {
 public:
  /// Opens the file and checks that a directory can express it. Throws Error.
  explicit Export(ExportOptions options);
  ~Export();
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;

  [[nodiscard]] const std::vector<ExportedTensor>& tensors() const;  ///< in the order of writing
  [[nodiscard]] const std::vector<std::string>& warnings() const;    ///< one line each
  [[nodiscard]] std::size_t shards() const;
  /// Writes a temporary directory and renames it at the end; otherwise like Conversion::write.
  bool write(const std::function<bool(std::uint64_t bytes)>& on_bytes,
             const std::function<void(const ExportedTensor&)>& on_tensor);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct MergeOptions {
  std::string output;
  std::optional<DType> type = {};  ///< type of changed matrices; nullopt: unchanged
  unsigned threads = 1;
  const KernelSet* kernels = nullptr;
};

/// Writes the base's keys and tensors with W + B·A in place of W: summed in double, then rounded
/// once to the type. on_bytes gets the bytes so far; false stops and leaves the target unchanged.
/// Throws Error for numbers that the type cannot hold, and as GgufWriter.
bool merge_adapters(const GgufFile& base, const Adapters& adapters, const MergeOptions& options,
                    const std::function<bool(std::uint64_t bytes)>& on_bytes);

}  // namespace cria
