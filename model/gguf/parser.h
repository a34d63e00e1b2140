// Internal: parses one GGUF file's bytes into keys and tensors, with all checks. GgufFile is the
// public interface.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/file/mapping.h"
#include "model/gguf/gguf.h"

namespace cria {

/// The contents of one file. Views point into its bytes.
struct GgufShard {
  std::string path;
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::vector<GgufKey> keys;                                    ///< in file order
  std::unordered_map<std::string_view, std::size_t> key_index;  ///< key -> position in keys
  std::vector<TensorView> tensors;                              ///< in file order
  std::vector<std::string> warnings;

  [[nodiscard]] const GgufValue* find(std::string_view key) const noexcept;
};

/// Reads header, metadata and tensor table. Throws Error. With metadata_only the tensor data may
/// end early or be missing.
GgufShard parse_gguf(std::span<const std::byte> bytes, const std::string& path, bool metadata_only);

/// A length or count: 32 bits in version 1, 64 bits since.
inline std::uint64_t read_count(Cursor& cursor, std::uint32_t version, std::string_view what) {
  return version == 1 ? cursor.read<std::uint32_t>(what) : cursor.read<std::uint64_t>(what);
}
/// A string of at most limit bytes, where it lies.
std::string_view read_string(Cursor& cursor, std::uint32_t version, std::uint64_t limit,
                             std::string_view path, std::string_view what);
/// One metadata value with everything in it walked and checked.
GgufValue read_value(Cursor& cursor, std::uint32_t version, std::string_view path);
/// The same after its type has been read: the elements of an array.
GgufValue read_payload(Cursor& cursor, std::uint32_t version, std::string_view path, GgufType type);
/// The tensor table at the cursor, and the data section behind it. Fills shard.tensors.
void read_tensors(Cursor& cursor, std::span<const std::byte> bytes, std::uint64_t count,
                  bool metadata_only, GgufShard& shard);

/// A value's integer, if it is one (any width, sign allowed) and fits into 64 unsigned bits.
std::optional<std::uint64_t> as_uint(const GgufValue& value) noexcept;
/// Bytes of a scalar of this type; 0 for String and Array.
std::size_t scalar_bytes(GgufType type) noexcept;

// Internal: models split into several files, "NAME-00001-of-00003.gguf" and so on.

/// The family of files that a first shard belongs to.
struct SplitPlan {
  std::string prefix;                    ///< the paths up to the shard's number
  std::uint32_t count = 0;               ///< split.count
  std::optional<std::uint64_t> tensors;  ///< split.tensors.count

  /// Path of shard number 0, 1, …
  [[nodiscard]] std::string path(std::uint32_t number) const;
};

/// The plan if the file is the first shard of several; nullopt for an ordinary file. Error for a
/// later shard or an unexpected file name.
std::optional<SplitPlan> plan_split(const GgufShard& first);
/// Error unless the shard says that it is number `number` of the same model.
void check_shard(const SplitPlan& plan, const GgufShard& first, const GgufShard& shard,
                 std::uint32_t number);
/// Error if all shards together do not hold the number of tensors that the first announces.
void check_total(const SplitPlan& plan, const std::string& path, std::size_t tensors);

}  // namespace cria
