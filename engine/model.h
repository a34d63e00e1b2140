// A loaded model.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "model/error.h"
#include "tokenizer/tokenizer.h"

namespace cria {

class Adapters;
class GgufFile;
struct Graph;
struct ModelConfig;
struct TokenTrie;

/// A value of the file's metadata that is taken instead of the file's own.
struct MetadataOverride {
  std::string
      key;  ///< beginning with a dot: ".rope.freq_base" of whatever architecture the file has
  std::variant<bool, std::int64_t, double, std::string> value;  ///< of the key's type
};
/// An adapter (LoRA) of a model.
struct LoraFile {
  std::string path;  ///< a GGUF file
  float scale = 1;   ///< factor of what the adapter adds; 0: no effect
};

/// How a file is loaded, and what in it is replaced.
struct LoadOptions {
  bool mmap = true;    ///< map the file; else read it into memory (huge pages where granted)
  bool mlock = false;  ///< keep it in memory
  std::string pre_tokenizer = {};                ///< "": the one that the file names
  std::vector<MetadataOverride> overrides = {};  ///< in place of the file's values
  std::vector<LoraFile> loras =
      {};  ///< adapters: their products are added to those of the matrices
};

/// A loaded model: file, hyper-parameters, weights, tokenizer, compute graph. Immutable; several
/// sessions may share it.
class Model : public std::enable_shared_from_this<Model> {
 public:
  /// Throws Error for a bad file, a tensor type that cannot be multiplied by here, or a CRIA_ISA
  /// that cannot run here.
  static std::shared_ptr<const Model> load(const std::string& path,
                                           const LoadOptions& options = {});
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const std::string& path() const;       ///< as it was given to load()
  [[nodiscard]] const std::string& name() const;       ///< as the file says, or ""
  [[nodiscard]] std::uint32_t context_length() const;  ///< positions that it was trained for
  [[nodiscard]] std::uint32_t vocabulary_size()
      const;  ///< ids that it takes, and logits of each position
  /// Ids that have a text, the first of those: answers have no others. Fewer where the embedding
  /// has rows beyond the token list.
  [[nodiscard]] std::uint32_t token_count() const;
  /// Throws Error if the vocabulary is of a kind that is not known: such a model runs on token ids
  /// only.
  [[nodiscard]] const Tokenizer& tokenizer() const;

  // What it is made of, for the rooms of this project: engine/model_parts.h has their headers.
  [[nodiscard]] const GgufFile& file() const;       ///< its metadata and tensors
  [[nodiscard]] const ModelConfig& config() const;  ///< its hyper-parameters
  /// What in metadata and tensors was tolerated, one line each.
  [[nodiscard]] const std::vector<std::string>& warnings() const;
  [[nodiscard]] const Vocabulary& vocabulary() const;  ///< its tokens, as the file has them
  [[nodiscard]] const Adapters& adapters() const;      ///< that act while it runs
  /// Its tokens' texts as a tree, made when first asked for. Throws as tokenizer().
  [[nodiscard]] std::shared_ptr<const TokenTrie> token_trie() const;
  [[nodiscard]] const Graph& graph() const;  ///< for the kernels in use
  /// Whether the file lies in memory that the system cannot take back (mlock or no mmap).
  [[nodiscard]] bool pinned() const;

 private:
  struct Parts;
  explicit Model(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace cria
