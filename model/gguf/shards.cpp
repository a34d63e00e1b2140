#include "model/gguf/shards.h"

#include <algorithm>
#include <memory>

#include "model/gguf/edit.h"
#include "model/gguf/split.h"
#include "model/gguf/tensor_copy.h"
#include "model/gguf/writer.h"
#include "model/plural.h"

namespace cria {
namespace {

void set_keys(GgufWriter& writer, const GgufFile& file) {
  for (const GgufKey& key : file.keys()) {
    if (!key.key.starts_with("split.")) writer.set(key.key, copy_value(file, key.value));
  }
}

// A writer for one file of a split model, its tensors not yet declared.
std::unique_ptr<GgufWriter> shard_writer(const GgufFile& file, const std::string& path,
                                         std::size_t number, std::size_t count) {
  auto writer = std::make_unique<GgufWriter>(path, file.alignment());
  if (number == 0) set_keys(*writer, file);
  writer->set("split.no", static_cast<std::uint16_t>(number));
  writer->set("split.count", static_cast<std::uint16_t>(count));
  writer->set("split.tensors.count", static_cast<std::int32_t>(file.tensors().size()));
  return writer;
}

std::uint64_t aligned(std::uint64_t n, std::uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// Bytes that a tensor adds to a file at most: its data, and its line in the table.
std::uint64_t cost(const TensorView& tensor, std::uint64_t alignment) {
  return aligned(tensor.bytes, alignment) + tensor.name.size() + 24 + 8 * tensor.shape.size();
}

}  // namespace

std::vector<Shard> plan_shards(const GgufFile& file, const std::string& prefix,
                               const SplitLimits& limits) {
  const auto tensors = file.tensors();
  std::vector<Shard> shards;
  std::uint64_t room = 0;  // bytes that the current file may still take
  const auto open = [&](std::size_t first) {
    const std::uint64_t keys = shard_writer(file, "", shards.size(), 1)->file_bytes();
    shards.push_back({"", first, first, 0});
    room = limits.bytes > keys + file.alignment() ? limits.bytes - keys - file.alignment() : 0;
  };
  open(0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t bytes = cost(tensors[i], file.alignment());
    const bool too_many = limits.tensors != 0 && i - shards.back().begin == limits.tensors;
    // The first file may hold metadata alone.
    if (too_many ||
        (limits.bytes != 0 && bytes > room && (shards.size() == 1 || i > shards.back().begin)))
      open(i);
    if (limits.bytes != 0 && bytes > room)
      throw file.error("larger than a file may be: expected at most " + counted(room, "byte") +
                           ", got " + std::to_string(bytes),
                       "tensor " + std::string(tensors[i].name));
    room -= limits.bytes != 0 ? bytes : 0;
    shards.back().end = i + 1;
  }
  if (shards.size() > 65535)
    throw file.error("too many files: expected at most 65535, got " +
                     std::to_string(shards.size()));
  const SplitPlan names{prefix, static_cast<std::uint32_t>(shards.size()), std::nullopt};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    Shard& shard = shards[i];
    shard.path = names.path(static_cast<std::uint32_t>(i));
    const auto writer = shard_writer(file, shard.path, i, shards.size());
    for (std::size_t t = shard.begin; t < shard.end; ++t)
      writer->declare(tensors[t].name, tensors[t].dtype, tensors[t].shape);
    shard.bytes = writer->file_bytes();
  }
  return shards;
}

bool write_shards(const GgufFile& file, const std::vector<Shard>& shards, const OnBytes& on_bytes) {
  const auto tensors = file.tensors();
  std::vector<std::unique_ptr<GgufWriter>> writers;
  for (const Shard& shard : shards) {
    require_other_file(file, shard.path);
    writers.push_back(shard_writer(file, shard.path, writers.size(), shards.size()));
    for (std::size_t t = shard.begin; t < shard.end; ++t)
      writers.back()->declare(tensors[t].name, tensors[t].dtype, tensors[t].shape);
    writers.back()->begin();
  }
  TensorCopy copy(file, on_bytes);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (std::size_t t = shards[i].begin; t < shards[i].end; ++t) {
      if (!copy.tensor(tensors[t], *writers[i])) return false;
    }
    writers[i]->complete();
  }
  for (const auto& writer : writers) writer->replace();
  return true;
}

bool write_merged(const GgufFile& file, const std::string& path, const OnBytes& on_bytes) {
  return write_edited(file, path, {}, on_bytes);
}

}  // namespace cria
