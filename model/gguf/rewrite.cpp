#include "model/gguf/rewrite.h"

#include <algorithm>
#include <memory>
#include <set>

#include "model/file/utf8.h"
#include "model/gguf/parser.h"
#include "model/gguf/writer.h"
#include "model/limits.h"
#include "model/plural.h"

namespace cria {

namespace {

std::string at_key(std::string_view key) { return "key " + std::string(key); }

bool is_layout(std::string_view key) {
  return key == "general.alignment" || key.starts_with("split.");
}

void check_key(const std::string& key) {
  if (key.empty()) throw Error("", "empty key");
  if (key.size() > limits::kKeyBytes)
    throw Error("", "key too long: expected at most " + std::to_string(limits::kKeyBytes) +
                        " bytes, got " + std::to_string(key.size()));
  if (key.find('\0') != std::string::npos) throw Error("", "NUL byte in a key", at_key(key));
  if (!is_utf8(key)) throw Error("", "key is not UTF-8", at_key(key));
  if (is_layout(key))
    throw Error("", "cannot be changed: it describes the file's layout", at_key(key));
}

/// Rejects values that the reader would refuse, and strings that are not UTF-8.
void check_value(const GgufData& value, const std::string& key, int depth = 0) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (text->size() > limits::kStringBytes)
      throw Error("",
                  "string too long: expected at most " + std::to_string(limits::kStringBytes) +
                      " bytes, got " + std::to_string(text->size()),
                  at_key(key));
    if (!is_utf8(*text)) throw Error("", "string is not UTF-8", at_key(key));
  }
  const auto* array = std::get_if<GgufArray>(&value);
  if (array == nullptr) return;
  if (depth >= limits::kArrayDepth)
    throw Error("",
                "arrays nested too deep: expected at most " + std::to_string(limits::kArrayDepth) +
                    " levels",
                at_key(key));
  if (array->values.size() > limits::kArrayElements)
    throw Error("",
                "array too long: expected at most " + std::to_string(limits::kArrayElements) +
                    " elements, got " + std::to_string(array->values.size()),
                at_key(key));
  for (const GgufData& element : array->values) check_value(element, key, depth + 1);
}

void check(const GgufFile& file, const GgufEdit& edit) {
  std::set<std::string_view> seen;
  std::size_t keys = file.keys().size();
  const auto check_once = [&](const std::string& key) {
    check_key(key);
    if (!seen.insert(key).second) throw Error("", "named twice", at_key(key));
  };
  for (const auto& [key, value] : edit.set) {
    check_once(key);
    check_value(value, key);
    if (file.find(key) == nullptr) ++keys;
  }
  for (const std::string& key : edit.remove) {
    check_once(key);
    if (file.find(key) == nullptr)
      throw file.error("cannot remove: the key does not exist", at_key(key));
  }
  if (keys > limits::kKeys)
    throw file.error("too many keys: expected at most " + std::to_string(limits::kKeys) + ", got " +
                     std::to_string(keys));
}

}  // namespace

bool write_edited(const GgufFile& file, const std::string& path, const GgufEdit& edit,
                  const OnBytes& on_bytes) {
  check(file, edit);
  require_other_file(file, path);
  GgufWriter writer(path, file.alignment());
  const bool whole = file.shard_count() == 1;
  for (const GgufKey& key : file.keys()) {
    const bool removed = std::ranges::find(edit.remove, key.key) != edit.remove.end();
    if (!removed && (whole || !key.key.starts_with("split.")))
      writer.set(key.key, copy_value(file, key.value));
  }
  for (const auto& [key, value] : edit.set) writer.set(key, value);
  for (const TensorView& tensor : file.tensors())
    writer.declare(tensor.name, tensor.dtype, tensor.shape);
  writer.begin();
  TensorCopy copy(file, on_bytes);
  for (const TensorView& tensor : file.tensors()) {
    if (!copy.tensor(tensor, writer)) return false;
  }
  writer.finish();
  return true;
}

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

// Upper bound of the bytes that a tensor adds to a file: its data and its table entry.
std::uint64_t cost(const TensorView& tensor, std::uint64_t alignment) {
  return aligned(tensor.bytes, alignment) + tensor.name.size() + 24 + 8 * tensor.shape.size();
}

}  // namespace

std::vector<Shard> plan_shards(const GgufFile& file, const std::string& prefix,
                               const SplitLimits& limits) {
  const auto tensors = file.tensors();
  std::vector<Shard> shards;
  std::uint64_t capacity = 0;  // bytes left in the current file
  const auto open = [&](std::size_t first) {
    const std::uint64_t keys = shard_writer(file, "", shards.size(), 1)->file_bytes();
    shards.push_back({"", first, first, 0});
    capacity = limits.bytes > keys + file.alignment() ? limits.bytes - keys - file.alignment() : 0;
  };
  open(0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t bytes = cost(tensors[i], file.alignment());
    const bool too_many = limits.tensors != 0 && i - shards.back().begin == limits.tensors;
    // The first file may hold metadata only.
    if (too_many ||
        (limits.bytes != 0 && bytes > capacity && (shards.size() == 1 || i > shards.back().begin)))
      open(i);
    if (limits.bytes != 0 && bytes > capacity)
      throw file.error("the largest size of a file, " + counted(limits.bytes, "byte") +
                           ", is too small for a tensor of " + counted(bytes, "byte"),
                       "tensor " + std::string(tensors[i].name));
    capacity -= limits.bytes != 0 ? bytes : 0;
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
