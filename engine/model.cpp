#include "engine/model.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/architectures/architecture.h"
#include "engine/cluster.h"
#include "engine/constrain/token_trie.h"
#include "engine/execute/machine.h"
#include "engine/lora/adapters.h"
#include "engine/model_parts.h"
#include "model/plural.h"

namespace cria {

struct Model::Parts {
  explicit Parts(GgufFile opened) : file(std::move(opened)) {}
  GgufFile file;
  Adapters adapters;
  ModelConfig config;
  std::vector<std::string> warnings;
  Vocabulary vocabulary;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<Error> no_tokenizer;  // reason why `tokenizer` is null
  Graph graph;
  std::optional<Graph> prediction;
  bool pinned = false;
  std::shared_ptr<Cluster> cluster;
  mutable std::once_flag trie_made;
  mutable std::shared_ptr<const TokenTrie> trie;

  static std::unique_ptr<const Parts> read(const std::string& path, const LoadOptions& options);
  void read_prediction();
};

Model::Model(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Model::~Model() {
  if (parts_->cluster) parts_->cluster->drop_model(*this);
}

namespace {

GgufOverride gguf_override(const MetadataOverride& override) {
  GgufOverride out{override.key, {}, {}};
  const auto scalar = [&](GgufType type, const auto& value) {
    out.type = type;
    out.bytes.assign(reinterpret_cast<const char*>(&value), sizeof value);
  };
  if (const auto* text = std::get_if<std::string>(&override.value)) {
    out.type = GgufType::String;
    out.bytes = *text;
  } else if (const auto* flag = std::get_if<bool>(&override.value)) {
    scalar(GgufType::Bool, *flag);
  } else if (const auto* integer = std::get_if<std::int64_t>(&override.value)) {
    scalar(GgufType::I64, *integer);
  } else {
    scalar(GgufType::F64, std::get<double>(override.value));
  }
  return out;
}

// Weights of interleaved types in the order of plain ones.
void put_in_order(GgufFile& file, const LoadOptions& options) {
  const std::uint64_t bytes = file.interleaved_bytes();
  if (bytes == 0) return;
  if (options.on_note)
    options.on_note(file.path() + ": rows of interleaved types are put in order in " +
                    counted(bytes, "byte") +
                    " of memory, beside the file's own; cria quantize --plain writes a file that "
                    "needs none");
  file.make_plain(usable_cores());
}

// Two types have had another meaning, in blocks of the same size.
void note_old_trellis(const GgufFile& file, const LoadOptions& options) {
  for (const DType type : {DType::IQ2_KT, DType::IQ3_KT}) {
    if (!options.on_note ||
        std::ranges::find(file.tensors(), type, &TensorView::dtype) == file.tensors().end())
      continue;
    options.on_note(file.path() + ": " + std::string(cria::name(type)) +
                    " meant other values in files made before 2025-06-18, and nothing in a file "
                    "tells which: if the model talks nonsense, get a newer file");
  }
}

}  // namespace

std::shared_ptr<const Model> Model::load(const std::string& path, const LoadOptions& options) {
  const auto here = [&] {
    return std::shared_ptr<const Model>(new Model(Parts::read(path, options)));
  };
  return options.cluster ? options.cluster->load_model(path, options, here) : here();
}

std::unique_ptr<const Model::Parts> Model::Parts::read(const std::string& path,
                                                       const LoadOptions& options) {
  GgufOptions how{.map = options.mmap ? MapMode::Mmap : MapMode::Read, .mlock = options.mlock};
  for (const MetadataOverride& override : options.overrides)
    how.overrides.push_back(gguf_override(override));
  auto parts = std::make_unique<Parts>(GgufFile::open(path, how));
  put_in_order(parts->file, options);
  note_old_trellis(parts->file, options);
  parts->pinned = parts->file.locked() || !options.mmap;
  parts->cluster = options.cluster;
  parts->config = read_config(parts->file);
  parts->adapters = Adapters::load(options.loras, parts->file);
  BuiltGraph built = build_graph(parts->file, parts->config, kernels_in_use(), &parts->adapters);
  parts->graph = std::move(built.graph);
  parts->warnings = parts->config.warnings;
  parts->warnings.insert(parts->warnings.end(), built.warnings.begin(), built.warnings.end());
  parts->read_prediction();
  parts->vocabulary = Vocabulary::from_gguf(parts->file);
  if (!options.pre_tokenizer.empty()) parts->vocabulary.pre = options.pre_tokenizer;
  try {
    parts->tokenizer = Tokenizer::create(parts->vocabulary);
  } catch (const Error& error) {
    parts->no_tokenizer = Error(path, error.what());
  }
  return parts;
}

// The model runs without these layers.
void Model::Parts::read_prediction() {
  const std::string tensor = prediction_tensor(file, config);
  if (tensor.empty() || graph.head != Head::Vocabulary) return;
  std::string why = "the file has no " + tensor;
  try {
    if (file.tensor(tensor) != nullptr) {
      prediction = build_prediction(file, config, kernels_in_use());
      return;
    }
  } catch (const Error& error) {
    why = error.what();
  }
  warnings.push_back("layers that predict further tokens are not used: " + why);
}

const Tokenizer& Model::tokenizer() const {
  if (parts_->no_tokenizer) throw Error(*parts_->no_tokenizer);
  return *parts_->tokenizer;
}

std::shared_ptr<const TokenTrie> Model::token_trie() const {
  std::call_once(parts_->trie_made, [&] {
    parts_->trie = std::make_shared<const TokenTrie>(tokenizer(), token_count());
  });
  return parts_->trie;
}

const std::string& Model::path() const { return parts_->file.path(); }
const std::string& Model::name() const { return parts_->config.name; }
std::uint32_t Model::context_length() const { return parts_->config.n_ctx_train; }
std::uint32_t Model::vocabulary_size() const { return parts_->config.n_vocab; }
std::uint32_t Model::token_count() const {
  const std::size_t named = vocabulary().tokens.size();
  return named == 0 ? vocabulary_size()
                    : static_cast<std::uint32_t>(std::min<std::size_t>(named, vocabulary_size()));
}
const GgufFile& Model::file() const { return parts_->file; }
const ModelConfig& Model::config() const { return parts_->config; }
const std::vector<std::string>& Model::warnings() const { return parts_->warnings; }
const Vocabulary& Model::vocabulary() const { return parts_->vocabulary; }
const Adapters& Model::adapters() const { return parts_->adapters; }
const Graph& Model::graph() const { return parts_->graph; }
const Graph* Model::prediction() const {
  return parts_->prediction ? &*parts_->prediction : nullptr;
}
Cluster* Model::cluster() const { return parts_->cluster.get(); }
bool Model::pinned() const { return parts_->pinned; }

}  // namespace cria
