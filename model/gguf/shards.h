// Splitting a model into several files "NAME-00001-of-00003.gguf", and putting such files together
// again. Keys: split.no, split.count (u16), split.tensors.count (i32); the first file has the
// metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/gguf/gguf.h"
#include "model/gguf/tensor_copy.h"

namespace cria {

/// One file of the result: tensors [begin, end) of the model.
struct Shard {
  std::string path;
  std::size_t begin = 0, end = 0;
  std::uint64_t bytes = 0;  ///< of the whole file
};

struct SplitLimits {
  std::uint64_t bytes = 0;    ///< of a file; 0: any
  std::uint64_t tensors = 0;  ///< of a file; 0: any
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
