#include "model/gguf/gguf.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "model/file/mapping.h"
#include "model/gguf/parser.h"
#include "model/gguf/split.h"

namespace cria {

namespace {

std::string find_architecture(const GgufShard& shard) {
  const GgufValue* const value = shard.find("general.architecture");
  if (value == nullptr || value->type != GgufType::String) return "";
  return {reinterpret_cast<const char*>(value->data), value->bytes};
}

}  // namespace

struct GgufFile::State {
  GgufShard first;                  // of a split model, the shard with the metadata
  std::vector<TensorView> tensors;  // of all shards
  std::unordered_map<std::string_view, std::size_t> tensor_index;  // name -> position in tensors
  std::vector<Mapping> mappings;   // one per shard; none for bytes in memory
  std::vector<std::string> paths;  // likewise
  std::size_t file_bytes = 0;
  std::size_t shard_count = 1;
  bool locked = false;
  std::vector<GgufOverride> overrides;  // what keys of `first` point to

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
  if (!state_->mappings.empty())
    state_->mappings[tensor.shard].prefetch({tensor.data, tensor.bytes});
}

void GgufFile::done_with(const TensorView& tensor) const noexcept {
  if (!state_->mappings.empty())
    state_->mappings[tensor.shard].release({tensor.data, tensor.bytes});
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

}  // namespace cria
