#include "model/safetensors/writer.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/file/json.h"
#include "model/plural.h"

namespace cria {
namespace {

constexpr std::size_t kAlignment = 8;  // alignment of the data within the file

std::string header(const std::vector<SafetensorsDeclaration>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const SafetensorsDeclaration& tensor : tensors) {
    json[tensor.name] = {{"dtype", tensor.type->name},
                         {"shape", tensor.shape},
                         {"data_offsets", {at, at + tensor.bytes()}}};
    at += tensor.bytes();
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

std::string shard_name(std::size_t index, std::size_t count) {
  if (count == 1) return "model.safetensors";
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return text.data();
}

}  // namespace

std::uint64_t SafetensorsDeclaration::bytes() const {
  std::uint64_t bytes = type->bytes;
  for (const std::uint64_t n : shape) bytes *= n;
  return bytes;
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<SafetensorsDeclaration> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(std::move(path)) {
  for (const SafetensorsDeclaration& tensor : tensors) expected_ += tensor.bytes();
  const std::string text = header(tensors, metadata);
  const std::uint64_t length = text.size();
  file_.write(&length, sizeof length);
  file_.write(text);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  assert(bytes.size() <= expected_ - written_);
  file_.write(bytes.data(), bytes.size());
  written_ += bytes.size();
}

void SafetensorsWriter::finish() {
  if (written_ != expected_)
    throw Error(file_.path(), "data is missing: expected " + counted(expected_, "byte") + ", got " +
                                  std::to_string(written_));
  file_.finish();
}

std::vector<SafetensorsShard> plan_shards(std::vector<SafetensorsDeclaration> tensors,
                                          std::uint64_t max_bytes) {
  std::vector<SafetensorsShard> shards;
  std::uint64_t used = 0;
  for (SafetensorsDeclaration& tensor : tensors) {
    const std::uint64_t bytes = tensor.bytes();
    if (shards.empty() || used + bytes > max_bytes) {
      shards.emplace_back();
      used = 0;
    }
    used += bytes;
    shards.back().tensors.push_back(std::move(tensor));
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = shard_name(i, shards.size());
    std::stable_sort(shards[i].tensors.begin(), shards[i].tensors.end(),
                     [](const auto& a, const auto& b) { return a.type->bytes > b.type->bytes; });
  }
  return shards;
}

std::string shard_index(const std::vector<SafetensorsShard>& shards) {
  std::map<std::string, std::string> files;
  std::uint64_t bytes = 0;
  for (const SafetensorsShard& shard : shards) {
    for (const SafetensorsDeclaration& tensor : shard.tensors) {
      files[tensor.name] = shard.file;
      bytes += tensor.bytes();
    }
  }
  return Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", files}}.dump(2) + "\n";
}

}  // namespace cria
