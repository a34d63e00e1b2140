// Exports GGUF files as directories of Hugging Face models, as a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/convert/row_stream.h"

namespace cria {

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

}  // namespace cria
