#include "engine/convert/convert.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "engine/architectures/architecture.h"
#include "engine/convert/hf_rules.h"
#include "engine/convert/hf_tensors.h"
#include "model/file/binary_file.h"
#include "model/plural.h"
#include "model/safetensors/writer.h"
#include "tokenizer/hf/vocabulary.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

/// A directory under construction, removed unless finish() is called.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(fs::path target)
      : target_(std::move(target)),
        path_(target_.string() + ".part-" + std::to_string(::getpid())) {
    fs::remove_all(path_);  // left by a killed process with the same id
    fs::create_directory(path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  void finish() {
    fs::rename(path_, target_);  // replaces an empty directory
    path_.clear();
  }

 private:
  fs::path target_, path_;
};

/// The path without a final slash.
fs::path without_slash(const fs::path& path) {
  return path.filename().empty() ? path.parent_path() : path;
}

/// The absolute path without links.
fs::path resolved(const std::string& directory) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(fs::absolute(directory, error), error);
  return without_slash(error ? fs::path(directory) : path);
}

/// True if another directory may take its place. Mount points and dangling links cannot be
/// replaced, and a process would not see the replacement of its working directory.
bool is_replaceable(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(directory, error))) return true;
  struct stat own = {}, parent = {};
  return ::stat(directory.c_str(), &own) == 0 &&
         ::stat(directory.parent_path().c_str(), &parent) == 0 && own.st_dev == parent.st_dev &&
         !fs::equivalent(directory, ".", error);
}

std::string_view torch_name(DType type) {
  return type == DType::F16 ? "float16" : type == DType::BF16 ? "bfloat16" : "float32";
}

/// A model as a directory of one class.
struct Description {
  HfConfig config;
  Json json;
  std::vector<HfTarget> targets;
};

/// Finds the class of models that can express everything in a file.
class Describer {
 public:
  Describer(const GgufFile& file, const ModelConfig& config, const Vocabulary& vocabulary)
      : file_(file),
        config_(config),
        vocabulary_(vocabulary),
        graph_(build_graph(file, config, *available_kernels().back())) {}

  [[nodiscard]] std::unique_ptr<Description> describe(std::string_view dtype) const {
    std::optional<Error> refused;
    for (const HfClass& one : hf_classes()) {
      if (one.arch != config_.arch) continue;
      try {
        return describe(one, dtype);
      } catch (const Error& error) {
        if (!refused) refused = error;
      }
    }
    throw refused ? *refused
                  : file_.error(
                        "cannot export this architecture: its names in Hugging Face's files are "
                        "unknown",
                        "key general.architecture");
  }
  [[nodiscard]] std::vector<std::string> unused() const {
    return {graph_.unused_tensors.begin(), graph_.unused_tensors.end()};
  }

 private:
  [[nodiscard]] std::unique_ptr<Description> describe(const HfClass& model_class,
                                                      std::string_view dtype) const {
    auto made = std::make_unique<Description>();
    made->config = HfConfig::from_gguf(file_, config_, model_class);
    set_window(made->config);
    if (vocabulary_.bos) made->config.bos = static_cast<std::uint32_t>(*vocabulary_.bos);
    if (vocabulary_.eos) made->config.eos = {static_cast<std::uint32_t>(*vocabulary_.eos)};
    made->json = made->config.to_json(dtype);
    Keys keys(file_);  // remembers which keys config.json has
    const Architecture& architecture = *find_architecture(config_.arch);
    static_cast<void>(ModelConfig::from_keys(file_, keys, architecture.norm, architecture.mixed));
    HfExport json(file_, keys, made->config, made->json);
    for (const HfRule& rule : model_class.rules)
      if (rule.to_json) rule.to_json(json);
    require_all_keys(keys);
    made->targets = hf_targets(made->config, file_, [this](std::string_view name) {
      return !graph_.unused_tensors.contains(name);
    });
    require_all_tensors(model_class, made->targets);
    return made;
  }

  // A window that the architecture does not use: only some classes have a common key for it.
  void set_window(HfConfig& config) const {
    if (graph_.keys_read.contains("attention.sliding_window")) return;
    const auto window = file_.find_uint(config_.arch + ".attention.sliding_window").value_or(0);
    if (window == 0) return;
    const bool other = std::ranges::any_of(hf_classes(), [this](const HfClass& one) {
      return one.arch == config_.arch && one.window_by_default;
    });
    if (other && !config.model_class->window_by_default)
      throw file_.error(
          "config.json of " + std::string(config.model_class->name) + " cannot express it",
          "key " + config_.arch + ".attention.sliding_window");
    config.sliding_window = static_cast<std::uint32_t>(std::min(window, limits::kContext));
  }

  void require_all_keys(const Keys& keys) const {
    for (const std::string& suffix : graph_.keys_read) {
      const std::string key = config_.arch + "." + suffix;
      if (file_.find(key) != nullptr && !keys.has_been_read(suffix))
        throw file_.error("config.json of this class of models cannot express it", "key " + key);
    }
  }

  void require_all_tensors(const HfClass& model_class, const std::vector<HfTarget>& targets) const {
    std::set<std::string_view> placed = {"rope_freqs.weight", "rope_factors_short.weight",
                                         "rope_factors_long.weight"};  // in config.json
    for (const HfTarget& target : targets)
      for (const std::string_view name : target.made_of()) placed.insert(name);
    for (const TensorView& tensor : file_.tensors())
      if (!placed.contains(tensor.name) && !graph_.unused_tensors.contains(tensor.name))
        throw file_.error("a directory of " + std::string(model_class.name) + " has no such tensor",
                          "tensor " + std::string(tensor.name));
  }

  const GgufFile& file_;
  const ModelConfig& config_;
  const Vocabulary& vocabulary_;
  const BuiltGraph graph_;
};

}  // namespace

struct Export::State {
  ExportOptions options;
  fs::path destination;  // options.directory, resolved
  GgufFile file;
  ModelConfig config;
  Vocabulary vocabulary;
  std::unique_ptr<Description> description;
  std::map<std::string_view, const HfTarget*> targets;  // by name
  std::vector<TextFile> texts;                          // all files but config.json
  std::vector<SafetensorsShard> shards;
  std::vector<ExportedTensor> tensors;
  std::vector<std::string> warnings;

  explicit State(ExportOptions wanted)
      : options(std::move(wanted)),
        file(GgufFile::open(options.file)),
        config(read_config(file)),
        vocabulary(Vocabulary::from_gguf(file)) {
    file.make_plain(options.threads);
    options.directory = without_slash(fs::path(options.directory).lexically_normal()).string();
    destination = resolved(options.directory);
    require_free_directory();
    const Describer describer(file, config, vocabulary);
    const TensorView* const embedding = file.tensor("token_embd.weight");
    description = describer.describe(torch_name(matrix_type(embedding->dtype)));
    if (const std::vector<std::string> names = describer.unused(); !names.empty())
      warnings.push_back(counted(names.size(), "tensor") + " ignored as unused: " + names.front() +
                         (names.size() > 1 ? ", …" : ""));
    plan();
    texts = hf_vocabulary_files(vocabulary, named_templates(file));
    for (TextFile& text : texts)
      if (text.name == "generation_config.json") text.content = with_sampling(text.content, file);
  }

  void require_free_directory() const {
    std::error_code error;
    if (fs::exists(destination, error) && !fs::is_directory(destination, error))
      throw Error(options.directory, "is not a directory: expected a new one");
    if (fs::exists(destination, error) && !fs::is_empty(destination, error))
      throw Error(options.directory, "is not empty: expected a new or empty directory");
    if (!is_replaceable(destination))
      throw Error(options.directory,
                  "cannot be replaced: it is a mount point, the working directory or a dangling "
                  "link; expected a new directory");
  }

  // BF16 can hold MXFP4's exponents, F16 cannot.
  [[nodiscard]] DType matrix_type(DType type) const {
    if (options.type) return *options.type;
    if (find_safetensors_type(type) != nullptr) return type;
    return type == DType::MXFP4 ? DType::BF16 : DType::F16;
  }

  void plan() {
    std::vector<SafetensorsDeclaration> declarations;
    for (const HfTarget& target : description->targets) {
      targets.emplace(target.name, &target);
      const DType type = target.shape.size() < 2 ? target.type() : matrix_type(target.type());
      declarations.push_back({target.name, find_safetensors_type(type), target.shape});
    }
    std::ranges::sort(declarations, {}, &SafetensorsDeclaration::name);
    shards = plan_shards(std::move(declarations), options.shard_bytes);
    for (const SafetensorsShard& shard : shards) {
      for (const SafetensorsDeclaration& item : shard.tensors)
        tensors.push_back({item.name, targets.at(item.name)->type(), *item.type->dtype, item.shape,
                           item.bytes()});
    }
  }

  [[nodiscard]] std::uint64_t total_bytes() const {
    std::uint64_t bytes = 0;
    for (const ExportedTensor& tensor : tensors) bytes += tensor.bytes;
    return bytes;
  }

  void write(const std::function<bool(std::uint64_t)>& on_bytes,
             const std::function<void(const ExportedTensor&)>& on_tensor) {
    const std::string beside = destination.parent_path().string();
    require_space(beside, total_bytes(), options.directory);
    TemporaryDirectory directory(destination);
    RowStream stream(*options.kernels, options.threads);
    ByteCount written(on_bytes);
    std::size_t index = 0;
    for (const SafetensorsShard& shard : shards) {
      SafetensorsWriter writer(directory.file(shard.file), shard.tensors, {{"format", "pt"}});
      for (std::size_t i = 0; i < shard.tensors.size(); ++i, ++index) {
        write_tensor(stream, tensors[index], [&](std::span<const std::byte> bytes) {
          writer.write(bytes);
          written.add(bytes.size());
        });
        on_tensor(tensors[index]);
      }
      writer.finish();
    }
    if (shards.size() > 1)
      write_text(directory, "model.safetensors.index.json", shard_index(shards));
    write_text(directory, "config.json", description->json.dump(2) + "\n");
    for (const TextFile& text : texts) write_text(directory, text.name, text.content);
    directory.finish();
  }

  void write_tensor(RowStream& stream, const ExportedTensor& tensor,
                    const RowStream::Sink& sink) const {
    const auto rows = targets.at(tensor.name)->rows();
    stream.write(
        {.file = options.file, .name = tensor.name, .rows = rows.get(), .type = tensor.type}, sink);
  }

  static void write_text(const TemporaryDirectory& directory, const std::string& name,
                         const std::string& content) {
    const std::string path = directory.file(name);
    std::FILE* const out = std::fopen(path.c_str(), "wbx");
    const bool wrote =
        out != nullptr && std::fwrite(content.data(), 1, content.size(), out) == content.size();
    const bool closed = out != nullptr && std::fclose(out) == 0;
    if (!wrote || !closed) throw Error(path, std::string("cannot write: ") + std::strerror(errno));
  }
};

Export::Export(ExportOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Export::~Export() = default;

const std::vector<ExportedTensor>& Export::tensors() const { return state_->tensors; }
const std::vector<std::string>& Export::warnings() const { return state_->warnings; }
std::size_t Export::shards() const { return state_->shards.size(); }

bool Export::write(const std::function<bool(std::uint64_t)>& on_bytes,
                   const std::function<void(const ExportedTensor&)>& on_tensor) {
  try {
    state_->write(on_bytes, on_tensor);
  } catch (const Stopped&) {
    return false;
  } catch (const fs::filesystem_error& error) {
    throw Error(state_->options.directory, "cannot write: " + error.code().message());
  }
  return true;
}

}  // namespace cria
