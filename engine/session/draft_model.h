// Drafts by a smaller model with the same vocabulary.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "model/token_id.h"

namespace cria {

/// A smaller model with the same vocabulary that guesses greedily, for several texts at once. One
/// of both may have up to 128 tokens more, which are never guessed: the files of a family are
/// padded to different lengths.
class DraftModel {
 public:
  /// options: of the engine that it guesses for, threads as they were asked for. Throws Error where
  /// the vocabularies differ, or the machine has not enough memory.
  DraftModel(const Model& draft, const Model& model, const EngineOptions& options);
  /// What it holds of a text.
  [[nodiscard]] Sequence sequence(std::uint64_t scope = 0, bool shared = true) {
    return Sequence(engine_, scope, shared);
  }
  struct DraftRequest {
    Sequence* sequence;
    std::span<const TokenId> text;
    std::size_t most;  ///< tokens of the draft
    /// Fewer where the context ends, or the text has not all been read; none of a text that it
    /// cannot read.
    std::vector<TokenId>* draft;
  };
  /// Reads what is new of the texts, at most so many tokens of all, and writes the drafts. Throws
  /// EvaluationStopped once `stop` (may be null) is set: drafts may be shorter then.
  void guess(std::span<const DraftRequest> guesses, std::size_t most_read,
             const std::atomic<bool>* stop = nullptr);

 private:
  bool pass(std::span<const DraftRequest> guesses, std::size_t& most_read);
  std::size_t add(const DraftRequest& guess, std::size_t most_read);

  const std::shared_ptr<const Model> owner_;
  Engine engine_;
  Batch batch_;
  const std::size_t n_vocab_;  // logits that both models have
  std::vector<TokenId> added_;
  std::vector<const DraftRequest*> complete_;  // of this pass, in the order of their rows
};

/// What a draft model needs for an engine with these options.
EngineMemory draft_memory(const Model& draft, const EngineOptions& options);

}  // namespace cria
