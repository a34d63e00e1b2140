#include "engine/convert/export.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/architectures/architecture.h"
#include "engine/architectures/hf_form.h"
#include "model/hf/config.h"
#include "model/hf/head_rows.h"
#include "model/safetensors/writer.h"
#include "tokenizer/hf/vocabulary.h"

namespace cria {
namespace {

namespace fs = std::filesystem;

struct Stopped {};

/// A directory under construction: removed unless it is finished.
class DirectoryInTheMaking {
 public:
  explicit DirectoryInTheMaking(const std::string& target)
      : target_(target), path_(target_.string() + ".part-" + std::to_string(::getpid())) {
    fs::remove_all(path_);  // left by a process that was killed and had our number
    fs::create_directory(path_);
  }
  DirectoryInTheMaking(const DirectoryInTheMaking&) = delete;
  DirectoryInTheMaking& operator=(const DirectoryInTheMaking&) = delete;
  ~DirectoryInTheMaking() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  void finish() {
    fs::rename(path_, target_);  // an empty directory of that name is replaced
    path_.clear();
  }

 private:
  fs::path target_, path_;
};

/// The directory's name without a slash at its end.
std::string clean(const std::string& directory) {
  fs::path path = fs::path(directory).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  return path.string();
}

std::string_view torch_name(DType type) {
  return type == DType::F16 ? "float16" : type == DType::BF16 ? "bfloat16" : "float32";
}

/// A tensor under both names.
struct Named {
  std::string gguf;
  HfRows rows = HfRows::Same;
};

/// All that files of the form may have, in their order: names at Hugging Face first.
std::vector<std::pair<std::string, Named>> all_names(const HfForm& form, std::uint32_t n_layers) {
  std::vector<std::pair<std::string, Named>> names;
  const auto numbered = [](std::string_view pattern, std::uint32_t layer, std::string_view ending) {
    std::string name(pattern);
    if (const std::size_t at = name.find('#'); at != std::string::npos)
      name.replace(at, 1, std::to_string(layer));
    return name.append(ending);
  };
  for (std::uint32_t layer = 0; layer < n_layers; ++layer) {
    for (const HfTensor& tensor : form.tensors) {
      const bool in_layer = tensor.gguf.find('#') != std::string_view::npos;
      if (!in_layer && layer != 0) continue;
      for (const char* ending : {".weight", ".bias"})
        names.emplace_back(numbered(tensor.hf, layer, ending),
                           Named{numbered(tensor.gguf, layer, ending), tensor.rows});
    }
  }
  return names;
}

}  // namespace

struct Export::State {
  ExportOptions options;
  GgufFile file;
  LlamaConfig llama;
  HfConfig config;
  Vocabulary vocabulary;
  std::map<std::string, Named> names;  // by Hugging Face's
  std::vector<SafetensorsShard> shards;
  std::vector<ExportedTensor> tensors;

  explicit State(ExportOptions wanted)
      : options(std::move(wanted)),
        file(GgufFile::open(options.file)),
        llama(read_config(file)),
        config(HfConfig::from_gguf(file, llama, hf_classes(true))),
        vocabulary(Vocabulary::from_gguf(file)) {
    options.directory = clean(options.directory);
    require_room_for_directory();
    (void)build_graph(file, llama, *available_kernels().back());  // all there, of the right shapes
    special_tokens();
    plan();
  }

  void require_room_for_directory() const {
    std::error_code error;
    if (!fs::exists(options.directory, error)) return;
    if (!fs::is_directory(options.directory, error))
      throw Error(options.directory, "is no directory: expected a new one");
    if (!fs::is_empty(options.directory, error))
      throw Error(options.directory, "is not empty: expected a new or empty directory");
  }

  void special_tokens() {
    if (vocabulary.bos) config.bos = static_cast<std::uint32_t>(*vocabulary.bos);
    if (vocabulary.eos) config.eos = {static_cast<std::uint32_t>(*vocabulary.eos)};
  }

  [[nodiscard]] DType target(const TensorView& tensor) const {
    if (tensor.shape.size() < 2) return tensor.dtype;
    if (options.type) return *options.type;
    return find_safetensors_type(tensor.dtype) != nullptr ? tensor.dtype : DType::F16;
  }

  void plan() {
    std::vector<SafetensorsDeclaration> declarations;
    std::size_t planned = file.tensor("rope_freqs.weight") != nullptr ? 1 : 0;  // said in config.json
    for (const auto& [hf, name] : all_names(*export_form(llama.arch), config.n_layers)) {
      const TensorView* const tensor = file.tensor(name.gguf);
      if (tensor == nullptr) continue;
      ++planned;
      std::vector<std::uint64_t> shape(tensor->shape.rbegin(), tensor->shape.rend());
      declarations.push_back({hf, find_safetensors_type(target(*tensor)), std::move(shape)});
      names.emplace(hf, name);
    }
    if (planned != file.tensors().size())
      throw file.error("holds tensors that a directory of this class of models has not: expected " +
                       std::to_string(planned) + ", got " + std::to_string(file.tensors().size()));
    shards = plan_shards(std::move(declarations), options.shard_bytes);
    for (const SafetensorsShard& shard : shards) {
      for (const SafetensorsDeclaration& item : shard.tensors)
        tensors.push_back({item.name, source(item.name).dtype, *item.type->dtype, item.shape, item.bytes()});
    }
  }

  [[nodiscard]] const TensorView& source(const std::string& hf_name) const {
    return *file.tensor(names.at(hf_name).gguf);
  }

  void write(const std::function<bool(std::uint64_t)>& on_bytes,
             const std::function<void(const ExportedTensor&)>& on_tensor) {
    DirectoryInTheMaking directory(options.directory);
    RowStream stream(*options.kernels, options.threads);
    std::uint64_t written = 0;
    std::size_t index = 0;
    for (const SafetensorsShard& shard : shards) {
      SafetensorsWriter writer(directory.file(shard.file), shard.tensors, {{"format", "pt"}});
      for (std::size_t i = 0; i < shard.tensors.size(); ++i, ++index) {
        write_tensor(stream, tensors[index], [&](std::span<const std::byte> bytes) {
          writer.write(bytes);
          written += bytes.size();
          if (!on_bytes(written)) throw Stopped();
        });
        on_tensor(tensors[index]);
      }
      writer.finish();
    }
    if (shards.size() > 1) write_text(directory, "model.safetensors.index.json", shard_index(shards));
    const std::string_view dtype = torch_name(tensors.empty() ? DType::F32 : matrix_type());
    write_text(directory, "config.json", config.to_json(dtype).dump(2) + "\n");
    for (const TextFile& text : hf_vocabulary_files(vocabulary))
      write_text(directory, text.name, text.content);
    directory.finish();
  }

  [[nodiscard]] DType matrix_type() const { return target(*file.tensor("token_embd.weight")); }

  void write_tensor(RowStream& stream, const ExportedTensor& tensor, const RowStream::Sink& sink) const {
    const bool paired = names.at(tensor.name).rows == HfRows::Pairs;
    const TensorView& view = source(tensor.name);
    const bool column = view.shape.size() < 2 && paired;
    const std::uint64_t cols = column ? 1 : view.cols(), rows = column ? view.cols() : view.rows();
    const auto values = gguf_rows(view, rows, cols);
    RowJob job{
        .file = options.file, .name = std::string(view.name), .rows = values.get(), .type = tensor.type};
    if (paired) job.source_row = [head = config.head_dim](std::uint64_t row) { return gguf_row(row, head); };
    stream.write(job, sink);
  }

  static void write_text(const DirectoryInTheMaking& directory, const std::string& name,
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
