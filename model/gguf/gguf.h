// GGUF files, read-only and memory-mapped: metadata by key, tensors by name. The public header of
// model/. Format: GGUF versions 1–3, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/formats/dtype.h"
#include "model/error.h"
#include "model/file/mapping.h"

namespace cria {

/// Value types of metadata, by their ids in the file.
enum class GgufType : std::uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64
};
std::string_view name(GgufType type) noexcept;

/// A value where it lies in the file. Views stay valid as long as the GgufFile. Scalars: data
/// points at the little-endian bytes.
struct GgufValue {
  GgufType type = GgufType::U8;
  GgufType element = GgufType::U8;  ///< type of an array's elements
  std::uint64_t count = 1;          ///< elements of an Array; bytes of a String
  const std::byte* data = nullptr;  ///< first byte of the payload (after lengths)
  /// Bytes of the payload; checked to lie in the file, nested arrays included.
  std::size_t bytes = 0;
};

struct GgufKey {
  std::string_view key;
  GgufValue value;
};

/// A tensor as the file tells it. shape[0] is the contiguous dimension (values per row); shape has
/// 1 to 4 entries.
struct TensorView {
  std::string_view name;
  DType dtype = DType::F32;
  std::vector<std::uint64_t> shape;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t shard = 0;     ///< index of the file that holds it
  std::uint64_t offset = 0;  ///< of the data, in bytes from the start of that file

  [[nodiscard]] std::uint64_t cols() const { return shape[0]; }
  [[nodiscard]] std::uint64_t rows() const;  ///< product of shape[1…]
  [[nodiscard]] std::size_t row_bytes() const { return dtype_info(dtype).row_bytes(shape[0]); }
  /// Bytes of a row after make_plain().
  [[nodiscard]] std::size_t plain_row_bytes() const {
    return dtype_info(dtype_info(dtype).plain).row_bytes(shape[0]);
  }
  [[nodiscard]] std::string shape_string() const;  ///< "[2048, 32000]"
};

/// A metadata value that stands for the file's own: a scalar or a string.
struct GgufOverride {
  std::string key;  ///< beginning with a dot: of the file's architecture
  GgufType type = GgufType::U8;
  std::string bytes;  ///< the scalar's, or the text
};

struct GgufOptions {
  MapMode map = MapMode::Mmap;
  bool mlock = false;
  /// Tensor data may be missing: vocabulary-only files, inspect of a truncated file.
  bool metadata_only = false;
  std::vector<GgufOverride> overrides = {};
};

/// An open file (all shards of a split one, if it was opened by its first shard). Movable, not
/// copyable; destruction unmaps.
class GgufFile {
 public:
  /// Reads and checks header, metadata and tensor table. Throws Error naming file, fault and place.
  static GgufFile open(const std::string& path, const GgufOptions& options = {});
  /// The same for a file's bytes in memory, which must outlive the result; name stands for
  /// the path in errors.
  static GgufFile from_bytes(std::span<const std::byte> bytes, const std::string& name,
                             const GgufOptions& options = {});
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  [[nodiscard]] const std::string& path() const noexcept;
  [[nodiscard]] const std::vector<std::string>& paths()
      const noexcept;  ///< paths of all shards; empty for bytes
  [[nodiscard]] std::uint32_t version() const noexcept;
  [[nodiscard]] std::uint64_t alignment() const noexcept;
  [[nodiscard]] std::size_t file_bytes() const noexcept;  ///< all shards
  [[nodiscard]] std::size_t shard_count() const noexcept;
  /// Things tolerated, one line each.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept;
  /// True if .mlock was requested and the system has locked all shards.
  [[nodiscard]] bool locked() const noexcept;

  [[nodiscard]] std::span<const GgufKey> keys() const noexcept;        ///< in file order
  [[nodiscard]] std::span<const TensorView> tensors() const noexcept;  ///< in file order
  [[nodiscard]] const GgufValue* find(
      std::string_view key) const noexcept;  ///< O(1); null if absent
  [[nodiscard]] const TensorView* tensor(
      std::string_view name) const noexcept;  ///< O(1); null if absent

  /// The elements of an array where they lie (nested arrays are arrays again).
  [[nodiscard]] std::vector<GgufValue> elements(const GgufValue& array) const;
  /// Calls visit(element) for each of them, the first `most` of them.
  void visit_elements(const GgufValue& array, const std::function<void(const GgufValue&)>& visit,
                      std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) const;

  /// Typed getters. Integers of any width and sign convert if the value fits. Missing: nullopt
  /// (find_*) or Error naming the key (get_*).
  [[nodiscard]] std::optional<std::uint64_t> find_uint(std::string_view key) const;
  [[nodiscard]] std::optional<double> find_float(std::string_view key) const;  ///< F32, F64
  [[nodiscard]] std::optional<bool> find_bool(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> find_string(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::string_view>> find_strings(
      std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<float>> find_floats(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> find_ints(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<bool>> find_bools(std::string_view key) const;
  [[nodiscard]] std::uint64_t get_uint(std::string_view key) const;
  [[nodiscard]] double get_float(std::string_view key) const;
  [[nodiscard]] std::string_view get_string(std::string_view key) const;
  /// Asks the system to read the tensor data ahead of its use; returns at once.
  void prefetch() const noexcept;
  /// Prefetches one tensor's data / marks it as not needed soon, so that streaming through a file
  /// does not keep all of it in memory.
  void prefetch(const TensorView& tensor) const noexcept;
  void done_with(const TensorView& tensor) const noexcept;
  /// Bytes that make_plain() allocates; 0 if no tensor is of an interleaved type.
  [[nodiscard]] std::uint64_t interleaved_bytes() const noexcept;
  /// Replaces tensors of interleaved types by plain ones, with the same values, in memory of this
  /// object. Throws Error if there is not enough memory.
  void make_plain(unsigned threads);
  /// Error that names this file.
  [[nodiscard]] Error error(std::string_view message, std::string_view where = {}) const;

 private:
  struct State;
  explicit GgufFile(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace cria
