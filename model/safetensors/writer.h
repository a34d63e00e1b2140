// Writes safetensors files, whole or in shards, tensor data as a stream.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/file/binary_file.h"
#include "model/safetensors/safetensors.h"

namespace cria {

/// The properties of one tensor to write.
struct SafetensorsDeclaration {
  std::string name;
  const SafetensorsType* type;
  std::vector<std::uint64_t> shape;

  [[nodiscard]] std::uint64_t bytes() const;
};

/// One file. Order of calls: the constructor with all tensors, write() for the data of each in
/// their order, finish(). The target is replaced whole or not at all (OutputFile). The same tensors
/// give the same bytes. Throws Error if the disk refuses.
class SafetensorsWriter {
 public:
  /// metadata: strings for "__metadata__", which is omitted if empty.
  SafetensorsWriter(std::string path, std::vector<SafetensorsDeclaration> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The next bytes of data, in pieces of any size.
  void write(std::span<const std::byte> bytes);
  /// Throws Error if data is missing.
  void finish();

 private:
  OutputFile file_;
  std::uint64_t expected_ = 0, written_ = 0;  // bytes of data
};

/// A part of a model: the tensors that one file holds.
struct SafetensorsShard {
  std::string file;  ///< its name within the directory
  std::vector<SafetensorsDeclaration> tensors;
};

/// Deals tensors out to files of at most max_bytes of data each (one that is larger alone gets a
/// file of its own), in their order: model.safetensors, or model-00001-of-0000N.safetensors. Within
/// a file, types with wide values come first, so that all values are aligned.
std::vector<SafetensorsShard> plan_shards(std::vector<SafetensorsDeclaration> tensors,
                                          std::uint64_t max_bytes);
/// The text of model.safetensors.index.json.
std::string shard_index(const std::vector<SafetensorsShard>& shards);

}  // namespace cria
