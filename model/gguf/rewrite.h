// Internal: copies tensor data from one file to another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/gguf/gguf.h"
#include "model/gguf/writer.h"

namespace cria {

/// Called with the bytes of tensor data written so far; false stops.
using OnBytes = std::function<bool(std::uint64_t bytes)>;

/// The data of tensors one after the other, with a look at on_bytes after each piece. File and
/// on_bytes must outlive it.
class TensorCopy {
 public:
  TensorCopy(const GgufFile& file, const OnBytes& on_bytes) : file_(file), on_bytes_(on_bytes) {}

  /// False if on_bytes stopped it. Throws Error if the disk refuses.
  bool tensor(const TensorView& tensor, GgufWriter& writer) {
    constexpr std::size_t kPieceBytes = std::size_t{8} << 20;
    file_.prefetch(tensor);
    const std::span<const std::byte> data(tensor.data, tensor.bytes);
    for (std::size_t at = 0; at < data.size(); at += kPieceBytes) {
      const auto piece = data.subspan(at, std::min(kPieceBytes, data.size() - at));
      writer.write(piece);
      bytes_ += piece.size();
      if (on_bytes_ && !on_bytes_(bytes_)) return false;
    }
    file_.done_with(tensor);
    return true;
  }

 private:
  const GgufFile& file_;
  const OnBytes& on_bytes_;
  std::uint64_t bytes_ = 0;
};

// A copy of a model with other metadata: keys set, replaced and removed, tensors as they are.

struct GgufEdit {
  std::vector<std::pair<std::string, GgufData>>
      set;  ///< a key that is there keeps its place, new ones follow
  std::vector<std::string> remove;
};

/// Writes the file with the edit to path. A split model becomes one file without the keys of a
/// split. Alignment and tensor data are kept. Returns false if on_bytes stopped it; path is then
/// unchanged. Throws Error before writing anything if a key is empty, too long, not UTF-8 or
/// repeated; if a key to remove does not exist; for general.alignment and split.*, which describe
/// the file's layout; for values that readers reject; if path is an input file.
bool write_edited(const GgufFile& file, const std::string& path, const GgufEdit& edit,
                  const OnBytes& on_bytes = {});

// Splitting a model into several files "NAME-00001-of-00003.gguf", and putting such files together
// again. Keys: split.no, split.count (u16), split.tensors.count (i32); the first file has the
// metadata.

/// One file of the result: tensors [begin, end) of the model.
struct Shard {
  std::string path;
  std::size_t begin = 0, end = 0;
  std::uint64_t bytes = 0;  ///< size of the whole file
};

struct SplitLimits {
  std::uint64_t bytes = 0;    ///< per file; 0: no limit
  std::uint64_t tensors = 0;  ///< per file; 0: no limit
};

/// Divides the tensors in their order, as few files as the limits allow. Throws Error for a tensor
/// that is larger than a file may be, and for more than 65535 files.
std::vector<Shard> plan_shards(const GgufFile& file, const std::string& prefix,
                               const SplitLimits& limits);

/// Writes all files or, if on_bytes stops it (then false) or an Error is thrown, none: they get
/// their names when the bytes of all are on the disk. No file may be one of the input's.
bool write_shards(const GgufFile& file, const std::vector<Shard>& shards,
                  const OnBytes& on_bytes = {});

/// Writes a model (of several files) as one file, without the keys of a split. False if on_bytes
/// stopped it. Throws Error, also if the target is one of the input's files.
bool write_merged(const GgufFile& file, const std::string& path, const OnBytes& on_bytes = {});

}  // namespace cria
