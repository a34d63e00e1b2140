#include "model/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "model/file/json.h"
#include "model/file/mapping.h"
#include "model/limits.h"
#include "model/plural.h"

namespace cria {

namespace {

constexpr std::size_t kDimensions = 8;
constexpr std::string_view kMetadata = "__metadata__";

constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F64", 8, DType::F64},   {"F32", 4, DType::F32}, {"F16", 2, DType::F16},
    {"BF16", 2, DType::BF16}, {"I64", 8, DType::I64}, {"I32", 4, DType::I32},
    {"I16", 2, DType::I16},   {"I8", 1, DType::I8},   {"U64", 8, {}},
    {"U32", 4, {}},           {"U16", 2, {}},         {"U8", 1, {}},
    {"BOOL", 1, {}},          {"F8_E4M3", 1, {}},     {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
};

std::string known_types() {
  std::string names;
  for (const SafetensorsType& type : kSafetensorsTypes)
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  return names;
}

/// The parser's events. Depth is at most three, and what stands in no place of the format ends the
/// parse.
class HeaderReader : public nlohmann::json_sax<SortedJson> {
 public:
  HeaderReader(const std::string& file, SafetensorsHeader& out) : file_(file), out_(out) {}

  bool start_object(std::size_t /*elements*/) override {
    if (place_ == Place::Start) return go(Place::Names);
    if (place_ == Place::Names && has_name_)
      return go(name_ == kMetadata ? Place::Metadata : Place::Fields);
    return unexpected("an object");
  }
  bool end_object() override {
    if (place_ == Place::Names) return go(Place::End);
    if (place_ == Place::Fields) finish_tensor();
    has_name_ = false;
    return go(Place::Names);
  }
  bool key(std::string& key) override {
    if (place_ == Place::Metadata) {
      field_ = key;
      if (out_.metadata.contains(key))
        fail("a key stands twice in " + std::string(kMetadata), "key " + key);
    } else if (place_ == Place::Fields) {
      start_field(key);
    } else {
      start_name(key);
    }
    return true;
  }
  bool string(std::string& text) override {
    if (place_ == Place::Metadata) {
      out_.metadata.emplace(field_, text);
      return true;
    }
    if (place_ != Place::Fields || field_ != "dtype") return unexpected("a string");
    entry_.type = find_safetensors_type(text);
    if (entry_.type == nullptr)
      fail("unknown type: expected one of " + known_types() + ", got " + text);
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (place_ != Place::Fields || field_ == "dtype") return unexpected("a list");
    return go(field_ == "shape" ? Place::Shape : Place::Offsets);
  }
  bool end_array() override {
    if (place_ == Place::Offsets && offsets_ != 2)
      fail("bad data_offsets: expected two numbers, got " + std::to_string(offsets_));
    return go(Place::Fields);
  }
  bool number_unsigned(std::uint64_t number) override {
    if (place_ == Place::Shape) {
      if (entry_.shape.size() == kDimensions)
        fail("too many dimensions: expected at most " + std::to_string(kDimensions));
      entry_.shape.push_back(number);
      return true;
    }
    if (place_ != Place::Offsets) return unexpected("a number");
    if (offsets_ < 2) (offsets_ == 0 ? entry_.begin : entry_.end) = number;
    ++offsets_;
    return true;
  }
  bool number_integer(std::int64_t /*number*/) override { return unexpected("a negative number"); }
  bool number_float(double /*number*/, const std::string& /*text*/) override {
    return unexpected("a number that is not an integer");
  }
  bool null() override { return unexpected("null"); }
  bool boolean(bool /*value*/) override { return unexpected("a truth value"); }
  bool binary(SortedJson::binary_t& /*value*/) override { return unexpected("bytes"); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    throw Error(file_, "the header is not JSON", "at byte " + std::to_string(position + 7));
  }

 private:
  enum class Place { Start, Names, Metadata, Fields, Shape, Offsets, End };

  bool go(Place place) {
    place_ = place;
    return true;
  }
  [[noreturn]] void fail(const std::string& message, const std::string& where) const {
    throw Error(file_, message, where);
  }
  [[noreturn]] void fail(const std::string& message) const {
    fail(message, has_name_ ? "tensor " + name_ : std::string());
  }
  bool unexpected(const std::string& what) const {
    fail("bad header: expected {\"NAME\": {\"dtype\", \"shape\", \"data_offsets\"}}, got " + what +
         (field_.empty() ? "" : " at \"" + field_ + "\""));
  }

  void start_name(const std::string& name) {
    has_name_ = true;
    name_ = name;
    field_.clear();
    if (name.empty()) fail("a tensor has no name");
    if (name.size() > limits::kKeyBytes)
      fail("name too long: expected at most " + std::to_string(limits::kKeyBytes) + " bytes");
    if (name.find('\0') != std::string::npos) fail("NUL in a name");
    if (!names_.insert(name).second) fail("a name stands twice");
    if (names_.size() > limits::kTensors)
      fail("too many tensors: expected at most " + std::to_string(limits::kTensors));
    entry_ = {.name = name};
    fields_.clear();
    offsets_ = 0;
  }

  void start_field(const std::string& field) {
    if (field != "dtype" && field != "shape" && field != "data_offsets")
      fail("unknown field: expected dtype, shape and data_offsets, got " + field);
    if (!fields_.insert(field).second) fail("a field stands twice: " + field);
    field_ = field;
  }

  void finish_tensor() {
    if (fields_.size() != 3) fail("a field is missing: expected dtype, shape and data_offsets");
    std::optional<std::uint64_t> bytes = entry_.type->bytes;
    for (const std::uint64_t n : entry_.shape) bytes = bytes ? limits::multiply(*bytes, n) : bytes;
    if (!bytes) fail("the shape has more than 2^64 bytes");
    if (entry_.end < entry_.begin || entry_.end - entry_.begin != *bytes)
      fail("data_offsets do not fit type and shape: expected " + counted(*bytes, "byte") +
           ", got " + std::to_string(entry_.begin) + " to " + std::to_string(entry_.end));
    out_.tensors.push_back(std::move(entry_));
    field_.clear();
  }

  const std::string& file_;
  SafetensorsHeader& out_;
  Place place_ = Place::Start;
  bool has_name_ = false;
  std::string name_, field_;
  SafetensorsEntry entry_;
  std::size_t offsets_ = 0;
  std::set<std::string> names_, fields_;
};

}  // namespace

const SafetensorsType* find_safetensors_type(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                   [name](const SafetensorsType& type) { return type.name == name; });
  return found == std::end(kSafetensorsTypes) ? nullptr : found;
}

const SafetensorsType* find_safetensors_type(DType dtype) noexcept {
  const auto* const found =
      std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                   [dtype](const SafetensorsType& type) { return type.dtype == dtype; });
  return found == std::end(kSafetensorsTypes) ? nullptr : found;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& file) {
  SafetensorsHeader header;
  HeaderReader reader(file, header);
  SortedJson::sax_parse(json, &reader);
  return header;
}

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
    throw Error(file, "not a safetensors file: expected at least 9 bytes, got " +
                          std::to_string(bytes.size()));
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (bytes[kLengthBytes] != std::byte{'{'})
    throw Error(file, "not a safetensors file: expected a header that begins with {, got " +
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
std::set<std::string> shard_names(const SortedJson& index, const std::string& file) {
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
    throw Error(directory, "not a directory: expected one with a model");
  const std::string index_path = (fs::path(directory) / kIndex).string();
  const std::string single = (fs::path(directory) / kSingle).string();
  SortedJson index;
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
