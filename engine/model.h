// A loaded model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "model/error.h"
#include "tokenizer/tokenizer.h"

namespace cria {

class Adapters;
class Cluster;
class GgufFile;
struct Graph;
struct ModelConfig;
struct TokenTrie;

/// A metadata value that replaces the file's own.
struct MetadataOverride {
  /// With a leading dot, such as ".rope.freq_base", of the file's architecture.
  std::string key;
  std::variant<bool, std::int64_t, double, std::string> value;  ///< has the key's type
};
/// A LoRA adapter.
struct LoraFile {
  std::string path;  ///< a GGUF file
  float scale = 1;   ///< multiplies what it adds; 0: no effect
};

/// Options of Model::load().
struct LoadOptions {
  bool mmap = true;                ///< map the file; else read it, into huge pages if granted
  bool mlock = false;              ///< keep it in memory
  std::string pre_tokenizer = {};  ///< "": the file's
  std::vector<MetadataOverride> overrides = {};  ///< replaced metadata
  std::vector<LoraFile> loras = {};              ///< LoRA adapters
  /// Called with what the user should know before memory is taken or answers are believed.
  std::function<void(const std::string& note)> on_note = {};
  /// Ranks that load the model and compute its engines too (engine/cluster.h); null: none.
  std::shared_ptr<Cluster> cluster = {};
};

/// A loaded model: file, hyper-parameters, weights, tokenizer and compute graph. Immutable; several
/// engines may share it.
class Model : public std::enable_shared_from_this<Model> {
 public:
  /// Throws Error for a bad file, an unsupported tensor type, or a CRIA_ISA that cannot run here.
  static std::shared_ptr<const Model> load(const std::string& path,
                                           const LoadOptions& options = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const std::string& path() const;        ///< as given to load()
  [[nodiscard]] const std::string& name() const;        ///< from the file, or ""
  [[nodiscard]] std::uint32_t context_length() const;   ///< training context, in tokens
  [[nodiscard]] std::uint32_t vocabulary_size() const;  ///< token ids, and logits per position
  /// Number of leading token ids that have a text; only these are ever sampled. Smaller than
  /// vocabulary_size() if the embedding is padded.
  [[nodiscard]] std::uint32_t token_count() const;
  /// Throws Error if the kind of vocabulary is unknown; such a model runs on token ids only.
  [[nodiscard]] const Tokenizer& tokenizer() const;

  // Its parts, for this project's own code: include engine/model_parts.h.
  /// Metadata and tensors.
  [[nodiscard]] const GgufFile& file() const;
  /// Hyper-parameters.
  [[nodiscard]] const ModelConfig& config() const;
  [[nodiscard]] const std::vector<std::string>& warnings() const;  ///< tolerated oddities
  /// Tokens as the file has them.
  [[nodiscard]] const Vocabulary& vocabulary() const;
  /// Adapters that are applied at run time.
  [[nodiscard]] const Adapters& adapters() const;
  /// Token texts as a tree, built on first use. Throws as tokenizer().
  [[nodiscard]] std::shared_ptr<const TokenTrie> token_trie() const;
  [[nodiscard]] const Graph& graph() const;  ///< for the kernels in use
  /// The graph of its own prediction layer (GraphPart::Prediction), which drafts; null: none.
  [[nodiscard]] const Graph* prediction() const;
  [[nodiscard]] Cluster* cluster() const;  ///< null: only this process
  [[nodiscard]] bool pinned() const;       ///< true if the system cannot evict it (mlock, no mmap)

 private:
  struct Parts;
  explicit Model(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace cria
