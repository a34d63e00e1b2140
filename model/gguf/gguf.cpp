#include "model/gguf/gguf.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <thread>
#include <utility>

#include "model/file/mapping.h"
#include "model/gguf/parser.h"
#include "model/limits.h"
#include "model/plural.h"

namespace cria {

namespace {

std::string find_architecture(const GgufShard& shard) {
  const GgufValue* const value = shard.find("general.architecture");
  if (value == nullptr || value->type != GgufType::String) return "";
  return {reinterpret_cast<const char*>(value->data), value->bytes};
}

// Offset of data that a tensor does not have in its file.
constexpr std::uint64_t kNotInFile = std::numeric_limits<std::uint64_t>::max();

}  // namespace

struct GgufFile::State {
  GgufShard first;                  // the shard with the metadata, if the model is split
  std::vector<TensorView> tensors;  // all shards' tensors
  std::unordered_map<std::string_view, std::size_t> tensor_index;  // name -> position in tensors
  std::vector<Mapping> mappings;   // one per shard; none for bytes in memory
  std::vector<std::string> paths;  // all shards' paths
  std::size_t file_bytes = 0;
  std::size_t shard_count = 1;
  bool locked = false;
  std::vector<GgufOverride> overrides;              // targets of the keys in `first`
  std::vector<std::unique_ptr<std::byte[]>> plain;  // data of tensors that were interleaved

  [[nodiscard]] bool maps(const TensorView& tensor) const {
    return !mappings.empty() && tensor.offset != kNotInFile;
  }

  void override_keys(const std::vector<GgufOverride>& wanted) {
    const std::string architecture = find_architecture(first);
    overrides = wanted;
    for (GgufOverride& override : overrides) {
      if (override.key.starts_with('.')) override.key.insert(0, architecture);
      const std::string& bytes = override.bytes;
      const GgufValue value{.type = override.type,
                            .count = override.type == GgufType::String ? bytes.size() : 1,
                            .data = reinterpret_cast<const std::byte*>(bytes.data()),
                            .bytes = bytes.size()};
      const auto [found, is_new] = first.key_index.emplace(override.key, first.keys.size());
      if (is_new)
        first.keys.push_back({override.key, value});
      else
        first.keys[found->second].value = value;
    }
  }

  void add_tensors(GgufShard& shard, std::size_t number) {
    tensors.reserve(tensors.size() + shard.tensors.size());
    tensor_index.reserve(tensors.size() + shard.tensors.size());
    for (TensorView& tensor : shard.tensors) {
      if (!tensor_index.emplace(tensor.name, tensors.size()).second) {
        throw Error(shard.path, "duplicate tensor", "tensor " + std::string(tensor.name));
      }
      tensor.shard = number;
      tensors.push_back(std::move(tensor));
    }
    shard.tensors.clear();
  }

  GgufShard add_file(const std::string& path, const GgufOptions& options) {
    const Mapping& mapping = mappings.emplace_back(path, options.map);
    paths.push_back(path);
    file_bytes += mapping.bytes().size();
    GgufShard shard = parse_gguf(mapping.bytes(), path, options.metadata_only);
    if (options.mlock && !mapping.lock()) {
      locked = false;
      shard.warnings.push_back(std::string("cannot lock the model in memory: ") +
                               std::strerror(errno) + " (raise the limit with `ulimit -l`)");
    }
    return shard;
  }
};

GgufFile::GgufFile(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

GgufFile GgufFile::open(const std::string& path, const GgufOptions& options) {
  auto state = std::make_unique<State>();
  state->locked = options.mlock;
  state->first = state->add_file(path, options);
  const std::optional<SplitPlan> plan = plan_split(state->first);
  state->add_tensors(state->first, 0);
  if (plan) {
    state->shard_count = plan->count;
    for (std::uint32_t number = 1; number < plan->count; ++number) {
      GgufShard shard = state->add_file(plan->path(number), options);
      check_shard(*plan, state->first, shard, number);
      std::move(shard.warnings.begin(), shard.warnings.end(),
                std::back_inserter(state->first.warnings));
      state->add_tensors(shard, number);
    }
    check_total(*plan, path, state->tensors.size());
  }
  state->override_keys(options.overrides);
  return GgufFile(std::move(state));
}

GgufFile GgufFile::from_bytes(std::span<const std::byte> bytes, const std::string& name,
                              const GgufOptions& options) {
  auto state = std::make_unique<State>();
  state->first = parse_gguf(bytes, name, options.metadata_only);
  if (plan_split(state->first))
    throw Error(name, "one shard of a split model: expected all of them, as files");
  state->file_bytes = bytes.size();
  state->add_tensors(state->first, 0);
  state->override_keys(options.overrides);
  return GgufFile(std::move(state));
}

const std::string& GgufFile::path() const noexcept { return state_->first.path; }
const std::vector<std::string>& GgufFile::paths() const noexcept { return state_->paths; }
std::uint32_t GgufFile::version() const noexcept { return state_->first.version; }
std::uint64_t GgufFile::alignment() const noexcept { return state_->first.alignment; }
std::size_t GgufFile::file_bytes() const noexcept { return state_->file_bytes; }
std::size_t GgufFile::shard_count() const noexcept { return state_->shard_count; }
bool GgufFile::locked() const noexcept { return state_->locked; }
const std::vector<std::string>& GgufFile::warnings() const noexcept {
  return state_->first.warnings;
}
std::span<const GgufKey> GgufFile::keys() const noexcept { return state_->first.keys; }
std::span<const TensorView> GgufFile::tensors() const noexcept { return state_->tensors; }
const GgufValue* GgufFile::find(std::string_view key) const noexcept {
  return state_->first.find(key);
}

const TensorView* GgufFile::tensor(std::string_view name) const noexcept {
  const auto found = state_->tensor_index.find(name);
  return found == state_->tensor_index.end() ? nullptr : &state_->tensors[found->second];
}

void GgufFile::prefetch() const noexcept {
  for (const Mapping& mapping : state_->mappings) mapping.prefetch();
}

void GgufFile::prefetch(const TensorView& tensor) const noexcept {
  if (state_->maps(tensor)) state_->mappings[tensor.shard].prefetch({tensor.data, tensor.bytes});
}

void GgufFile::done_with(const TensorView& tensor) const noexcept {
  if (state_->maps(tensor)) state_->mappings[tensor.shard].release({tensor.data, tensor.bytes});
}

std::uint64_t GgufFile::interleaved_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const TensorView& tensor : tensors())
    if (dtype_info(tensor.dtype).deinterleave != nullptr)
      bytes += tensor.rows() * tensor.plain_row_bytes();
  return bytes;
}

void GgufFile::make_plain(unsigned threads) {
  for (TensorView& tensor : state_->tensors) {
    const DTypeInfo& type = dtype_info(tensor.dtype);
    if (type.deinterleave == nullptr) continue;
    const std::size_t bytes = tensor.rows() * tensor.plain_row_bytes();
    std::unique_ptr<std::byte[]> plain(new (std::nothrow) std::byte[bytes]);
    if (plain == nullptr)
      throw error("not enough memory to put the rows of " + std::string(type.name) +
                      " in order: " + counted(interleaved_bytes(), "byte") +
                      " are needed; cria quantize --plain writes a file that needs none",
                  "tensor " + std::string(tensor.name));
    prefetch(tensor);
    const std::uint64_t n_units = tensor.rows() / type.interleaved_rows;
    const std::size_t unit_bytes = type.interleaved_rows * tensor.row_bytes(),
                      plain_bytes = type.interleaved_rows * tensor.plain_row_bytes();
    std::atomic<std::uint64_t> next = 0;
    const auto work = [&] {
      for (std::uint64_t unit = next++; unit < n_units; unit = next++)
        type.deinterleave(tensor.data + unit * unit_bytes, tensor.cols(),
                          plain.get() + unit * plain_bytes);
    };
    std::vector<std::jthread> others(std::min<std::uint64_t>(threads, n_units) - 1);
    for (std::jthread& thread : others) thread = std::jthread(work);
    work();
    others.clear();
    done_with(tensor);
    tensor.dtype = type.plain;
    tensor.data = plain.get();
    tensor.bytes = bytes;
    tensor.offset = kNotInFile;
    state_->plain.push_back(std::move(plain));
  }
}

Error GgufFile::error(std::string_view message, std::string_view where) const {
  return {path(), message, where};
}

std::uint64_t TensorView::rows() const {
  std::uint64_t product = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) product *= shape[i];
  return product;
}

std::string TensorView::shape_string() const {
  std::string out;
  for (const std::uint64_t dimension : shape)
    out += (out.empty() ? "[" : ", ") + std::to_string(dimension);
  return out + "]";
}

// Typed access to metadata. Errors name the key, the type that was wanted and the one that is
// there.

namespace {

std::string where(std::string_view key) { return "key " + std::string(key); }

std::string type_name(const GgufValue& value) {
  if (value.type != GgufType::Array) return std::string(name(value.type));
  return "array of " + std::string(name(value.element));
}

Error wrong_type(const GgufFile& file, std::string_view key, std::string_view wanted,
                 const GgufValue& value) {
  return file.error(
      "wrong type of a key: expected " + std::string(wanted) + ", got " + type_name(value),
      where(key));
}

Error missing(const GgufFile& file, std::string_view key) {
  return file.error("missing key", where(key));
}

template <typename T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

std::optional<double> as_float(const GgufValue& value) {
  if (value.type == GgufType::F32) return load<float>(value.data);
  if (value.type == GgufType::F64) return load<double>(value.data);
  return std::nullopt;
}

std::optional<std::int64_t> as_int(const GgufValue& value) {
  if (value.type == GgufType::I8) return load<std::int8_t>(value.data);
  if (value.type == GgufType::I16) return load<std::int16_t>(value.data);
  if (value.type == GgufType::I32) return load<std::int32_t>(value.data);
  if (value.type == GgufType::I64) return load<std::int64_t>(value.data);
  const auto number = as_uint(value);
  if (!number || *number > INT64_MAX) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

bool is_integer(GgufType type) {
  return scalar_bytes(type) != 0 && type != GgufType::F32 && type != GgufType::F64 &&
         type != GgufType::Bool;
}

std::string_view text(const GgufValue& value) {
  return {reinterpret_cast<const char*>(value.data), value.bytes};
}

/// The array under key whose scalar elements pass accept; null if the key is absent.
const GgufValue* find_array(const GgufFile& file, std::string_view key, std::string_view wanted,
                            bool (*accept)(GgufType)) {
  const GgufValue* const value = file.find(key);
  if (value != nullptr && (value->type != GgufType::Array || !accept(value->element))) {
    throw wrong_type(file, key, wanted, *value);
  }
  return value;
}

}  // namespace

void GgufFile::visit_elements(const GgufValue& array,
                              const std::function<void(const GgufValue&)>& visit,
                              std::uint64_t most) const {
  // The array was checked when the file was opened, so the cursor cannot run out.
  Cursor cursor({array.data, array.bytes}, path());
  for (std::uint64_t i = 0; i < std::min(array.count, most); ++i)
    visit(read_payload(cursor, version(), path(), array.element));
}

std::vector<GgufValue> GgufFile::elements(const GgufValue& array) const {
  std::vector<GgufValue> out;
  out.reserve(array.count);
  visit_elements(array, [&](const GgufValue& element) { out.push_back(element); });
  return out;
}

std::optional<std::uint64_t> GgufFile::find_uint(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_uint(*value);
  if (!number && is_integer(value->type)) {
    throw error("negative number: expected 0 or more, got " + std::to_string(*as_int(*value)),
                where(key));
  }
  if (!number) throw wrong_type(*this, key, "an integer", *value);
  return number;
}

std::optional<double> GgufFile::find_float(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_float(*value);
  if (!number) throw wrong_type(*this, key, "f32 or f64", *value);
  return number;
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::Bool) throw wrong_type(*this, key, "bool", *value);
  return *value->data != std::byte{0};
}

std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
  const GgufValue* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != GgufType::String) throw wrong_type(*this, key, "string", *value);
  return text(*value);
}

std::optional<std::vector<std::string_view>> GgufFile::find_strings(std::string_view key) const {
  const GgufValue* const array = find_array(*this, key, "array of string",
                                            [](GgufType type) { return type == GgufType::String; });
  if (array == nullptr) return std::nullopt;
  Cursor cursor({array->data, array->bytes}, path());
  std::vector<std::string_view> out(array->count);
  for (std::string_view& string : out) {
    string = read_string(cursor, version(), limits::kStringBytes, path(), "a string");
  }
  return out;
}

std::optional<std::vector<float>> GgufFile::find_floats(std::string_view key) const {
  const GgufValue* const array = find_array(*this, key, "array of f32 or f64", [](GgufType type) {
    return type == GgufType::F32 || type == GgufType::F64;
  });
  if (array == nullptr) return std::nullopt;
  std::vector<float> out(array->count);
  const std::size_t size = scalar_bytes(array->element);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] =
        static_cast<float>(*as_float({.type = array->element, .data = array->data + i * size}));
  }
  return out;
}

std::optional<std::vector<std::int64_t>> GgufFile::find_ints(std::string_view key) const {
  const GgufValue* const array = find_array(*this, key, "array of integers", is_integer);
  if (array == nullptr) return std::nullopt;
  std::vector<std::int64_t> out(array->count);
  const std::size_t size = scalar_bytes(array->element);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto number = as_int({.type = array->element, .data = array->data + i * size});
    if (!number) throw error("number too large at index " + std::to_string(i), where(key));
    out[i] = *number;
  }
  return out;
}

std::optional<std::vector<bool>> GgufFile::find_bools(std::string_view key) const {
  const GgufValue* const array =
      find_array(*this, key, "array of bool", [](GgufType type) { return type == GgufType::Bool; });
  if (array == nullptr) return std::nullopt;
  std::vector<bool> out(array->count);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = array->data[i] != std::byte{0};
  return out;
}

std::uint64_t GgufFile::get_uint(std::string_view key) const {
  const auto value = find_uint(key);
  if (!value) throw missing(*this, key);
  return *value;
}

double GgufFile::get_float(std::string_view key) const {
  const auto value = find_float(key);
  if (!value) throw missing(*this, key);
  return *value;
}

std::string_view GgufFile::get_string(std::string_view key) const {
  const auto value = find_string(key);
  if (!value) throw missing(*this, key);
  return *value;
}

}  // namespace cria
