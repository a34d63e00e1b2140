#include "model/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "model/file/json.h"
#include "model/file/magic.h"
#include "model/file/mapping.h"
#include "model/limits.h"
#include "model/plural.h"
#include "model/safetensors/header.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kHeaderBytes = 100'000'000;  // the limit of the format's own reader
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kSingle = "model.safetensors";

/// The JSON of the header, where it lies.
std::string_view header_text(std::span<const std::byte> bytes, const std::string& file) {
  std::uint64_t length = 0;
  if (bytes.size() <= kLengthBytes)
    throw Error(file, "is no safetensors file: expected at least 9 bytes, got " +
                          std::to_string(bytes.size()));
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (bytes[kLengthBytes] != std::byte{'{'})
    throw Error(file, "is no safetensors file: expected a header that begins with {, got " +
                          describe_magic(bytes));
  if (length > kHeaderBytes || length > bytes.size() - kLengthBytes)
    throw Error(
        file,
        "bad length of the header: expected at most " +
            counted(std::min<std::uint64_t>(kHeaderBytes, bytes.size() - kLengthBytes), "byte") +
            ", got " + std::to_string(length),
        "at byte 0");
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length};
}

/// The tensors in the order of their data, which must fill the file without overlap or hole.
std::vector<SafeTensor> place(std::vector<SafetensorsEntry> entries,
                              std::span<const std::byte> data, const std::string& file) {
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  std::vector<SafeTensor> tensors;
  tensors.reserve(entries.size());
  std::uint64_t at = 0;
  for (SafetensorsEntry& entry : entries) {
    const std::string where = "tensor " + entry.name;
    if (entry.end > data.size())
      throw Error(file,
                  "data past the end of the file: expected at most " + std::to_string(data.size()) +
                      ", got " + std::to_string(entry.end),
                  where);
    if (entry.begin != at)
      throw Error(file,
                  std::string(entry.begin < at ? "data overlap" : "a hole before the data") +
                      ": expected to begin at " + std::to_string(at) + ", got " +
                      std::to_string(entry.begin),
                  where);
    at = entry.end;
    tensors.push_back({std::move(entry.name), entry.type, std::move(entry.shape),
                       data.subspan(entry.begin, entry.end - entry.begin)});
  }
  if (at != data.size())
    throw Error(file, "bytes after the last tensor: expected " + counted(at, "byte") +
                          " of data, got " + std::to_string(data.size()));
  return tensors;
}

/// The shards that an index names; checks that they are plain names.
std::set<std::string> shard_names(const nlohmann::json& index, const std::string& file) {
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty())
    throw Error(file, "no weight_map: expected {\"weight_map\": {\"TENSOR\": \"FILE\"}}");
  std::set<std::string> names;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string())
      throw Error(file, "bad weight_map: expected the name of a file", "tensor " + tensor);
    names.insert(shard.get<std::string>());
  }
  return names;
}

std::vector<std::string> all_files(const std::string& directory) {
  std::vector<std::string> paths;
  bool pickles = false;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".safetensors") paths.push_back(entry.path().string());
    pickles |= entry.path().extension() == ".bin" || entry.path().extension() == ".pth";
  }
  if (paths.empty())
    throw Error(
        directory,
        "no weights: expected " + std::string(kSingle) + " or " + kIndex +
            (pickles ? " (PyTorch's .bin and .pth files are programs, and are not read)" : ""));
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

struct SafetensorsFile::State {
  std::string path;
  std::optional<Mapping> mapping;  // none for bytes in memory
  std::vector<SafeTensor> tensors;
  std::map<std::string, std::string> metadata;

  void read(std::span<const std::byte> bytes) {
    const std::string_view json = header_text(bytes, path);
    SafetensorsHeader header = parse_safetensors_header(json, path);
    tensors = place(std::move(header.tensors), bytes.subspan(kLengthBytes + json.size()), path);
    metadata = std::move(header.metadata);
  }
};

std::string SafeTensor::shape_string() const {
  std::string out = "[";
  for (const std::uint64_t n : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(n);
  return out + "]";
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<State> state) noexcept
    : state_(std::move(state)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->mapping.emplace(path, MapMode::Mmap, "a safetensors file");
  state->read(state->mapping->bytes());
  return SafetensorsFile(std::move(state));
}

SafetensorsFile SafetensorsFile::from_bytes(std::span<const std::byte> bytes,
                                            const std::string& name) {
  auto state = std::make_unique<State>();
  state->path = name;
  state->read(bytes);
  return SafetensorsFile(std::move(state));
}

const std::string& SafetensorsFile::path() const noexcept { return state_->path; }
std::span<const SafeTensor> SafetensorsFile::tensors() const noexcept { return state_->tensors; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const noexcept {
  return state_->metadata;
}

std::string plain_file_in(const std::string& directory, std::string_view name,
                          const std::string& named_by) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos)
    throw Error(named_by, "bad name of a file: expected one in the same directory, got '" +
                              std::string(name) + "'");
  return (fs::path(directory) / name).string();
}

SafetensorsDirectory SafetensorsDirectory::open(const std::string& directory) {
  if (!fs::is_directory(directory))
    throw Error(directory, "is no directory: expected one with a model in it");
  const std::string index_path = (fs::path(directory) / kIndex).string();
  const std::string single = (fs::path(directory) / kSingle).string();
  nlohmann::json index;
  std::vector<std::string> paths;
  if (fs::exists(index_path)) {
    index = read_json(index_path, {.bytes = 64 << 20, .depth = 8, .values = limits::kTensors});
    for (const std::string& name : shard_names(index, index_path))
      paths.push_back(plain_file_in(directory, name, index_path));
  } else {
    paths = fs::exists(single) ? std::vector{single} : all_files(directory);
  }
  SafetensorsDirectory model;
  model.path_ = directory;
  for (const std::string& path : paths) {
    const SafetensorsFile& file = model.files_.emplace_back(SafetensorsFile::open(path));
    for (const SafeTensor& tensor : file.tensors()) {
      if (!model.tensors_.emplace(tensor.name, &tensor).second)
        throw Error(path, "a tensor that another file has too", "tensor " + tensor.name);
    }
  }
  if (index.is_object()) {
    for (const auto& [tensor, shard] : index["weight_map"].items()) {
      if (model.tensor(tensor) == nullptr)
        throw Error(index_path,
                    "no shard holds a tensor: expected it in " + shard.get<std::string>(),
                    "tensor " + tensor);
    }
  }
  return model;
}

const SafeTensor* SafetensorsDirectory::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

}  // namespace cria
