// Read-only, memory-mapped safetensors files, one or a directory of shards.
// Format (https://huggingface.co/docs/safetensors): eight bytes give the length of a JSON header
// {"NAME": {"dtype", "shape", "data_offsets": [begin, end]}, …, "__metadata__": {…}}. The tensors'
// values follow: little-endian, row-major, without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/formats/dtype.h"
#include "model/error.h"

namespace cria {

/// One row of the table of value types.
struct SafetensorsType {
  std::string_view name;  ///< "BF16"
  std::uint32_t bytes;    ///< per value
  /// The same type in GGUF; none for BOOL, the unsigned integers and the floats of eight bits,
  /// whose values are not converted.
  std::optional<DType> dtype;
};
/// The row of a type's name, or null.
const SafetensorsType* find_safetensors_type(std::string_view name) noexcept;
/// The row of a GGUF type, or null for those that safetensors have not (blocks).
const SafetensorsType* find_safetensors_type(DType dtype) noexcept;

/// A tensor where it lies in the file. The last dimension is the contiguous one (the first in
/// GGUF).
struct SafeTensor {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<std::uint64_t> shape;  ///< may be empty: a scalar
  std::span<const std::byte> data;   ///< may be unaligned

  [[nodiscard]] std::uint64_t values() const { return data.size() / type->bytes; }
  [[nodiscard]] std::string shape_string() const;  ///< "[32000, 2048]"
};

/// One open file. Movable; destruction unmaps.
class SafetensorsFile {
 public:
  /// Reads and checks the header: sizes, offsets, names. Throws Error naming file, fault and
  /// tensor.
  static SafetensorsFile open(const std::string& path);
  /// The same for bytes in memory, which must outlive the result; name stands for the path in
  /// errors.
  static SafetensorsFile from_bytes(std::span<const std::byte> bytes, const std::string& name);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  [[nodiscard]] const std::string& path() const noexcept;
  [[nodiscard]] std::span<const SafeTensor> tensors()
      const noexcept;  ///< in the order of their data
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept;

 private:
  struct State;
  explicit SafetensorsFile(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// All tensors of a model's directory.
class SafetensorsDirectory {
 public:
  /// model.safetensors.index.json and the shards it names; without one, model.safetensors; without
  /// that, every
  /// *.safetensors. Throws Error for a shard that is missing or lies elsewhere, a tensor that two
  /// files have or none.
  static SafetensorsDirectory open(const std::string& directory);

  [[nodiscard]] std::span<const SafetensorsFile> files() const noexcept { return files_; }
  [[nodiscard]] const SafeTensor* tensor(std::string_view name) const;  ///< null if absent
  /// Tensors by name.
  [[nodiscard]] const std::map<std::string_view, const SafeTensor*>& tensors() const noexcept {
    return tensors_;
  }
  /// Error that names the directory.
  [[nodiscard]] Error error(std::string_view message, std::string_view where = {}) const {
    return {path_, message, where};
  }

 private:
  std::string path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string_view, const SafeTensor*> tensors_;
};

/// Returns the path of a file in the same directory, named by another file. Throws Error unless the
/// name is plain, so that it cannot lead out of the directory.
std::string plain_file_in(const std::string& directory, std::string_view name,
                          const std::string& named_by);

// The JSON header of a safetensors file, event by event: nothing is kept but what a tensor needs.

/// The header's entry of one tensor.
struct SafetensorsEntry {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<std::uint64_t> shape{};
  std::uint64_t begin = 0, end = 0;  ///< bytes within the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  ///< as they stand
  std::map<std::string, std::string> metadata;
};

/// Throws Error unless the text is a header and each tensor's bytes fit its type and shape. file
/// names it in errors.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file);

}  // namespace cria
