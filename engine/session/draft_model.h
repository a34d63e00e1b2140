// Drafts by a smaller model.
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

/// A smaller model that drafts greedily for several texts at once. Its vocabulary must be the same,
/// but for up to 128 padding tokens of either, which are never drafted.
class DraftModel {
 public:
  /// Throws Error if the vocabularies differ or memory is short.
  DraftModel(const Model& draft, const Model& model, const EngineOptions& options);
  /// Returns an empty sequence of the draft model.
  [[nodiscard]] Sequence sequence(std::uint64_t scope, bool shared) {
    return Sequence(engine_, scope, shared);
  }
  struct DraftRequest {
    Sequence* sequence;  ///< a sequence of the draft model
    std::span<const TokenId> text;
    std::size_t most;  ///< max tokens of the draft
    /// Receives the draft. Shorter if the context ends or the text is not yet evaluated.
    std::vector<TokenId>* draft;
  };
  /// Evaluates up to `most_read` new tokens of the texts and writes drafts. Throws
  /// EvaluationStopped once `stop` (may be null) is set.
  void write(std::span<const DraftRequest> requests, std::size_t most_read,
             const std::atomic<bool>* stop);

 private:
  bool pass(std::span<const DraftRequest> requests, std::size_t& most_read);
  std::size_t add(const DraftRequest& request, std::size_t most_read);

  Engine engine_;
  Batch batch_;
  const std::size_t n_vocab_;  // token ids of both models
  std::vector<TokenId> added_;
  std::vector<const DraftRequest*> complete_;  // requests whose text this pass completes, by row
};

}  // namespace cria
