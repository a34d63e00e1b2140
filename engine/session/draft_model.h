// Drafts by a smaller model, or by the model's own prediction layer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/architectures/architecture.h"
#include "engine/engine.h"
#include "model/token_id.h"

namespace cria {

inline constexpr std::size_t kFrequentTokens = 32768;  ///< see draft_rows()

/// Returns the number of logits, the first ones, from which a draft of the text's next tokens is
/// chosen. All rows of the output matrix would be most of a draft's cost, and token ids are ranks:
/// of merges in BPE, of frequency elsewhere. The first 32,768 hold 91 to 94 % of English text and
/// code. For other scripts, the number covers all but 1/16 of the text's last tokens. Control
/// tokens do not count: they lie at the end, so the one that ends an answer is not drafted.
std::size_t draft_rows(std::span<const TokenId> text, const Vocabulary& vocabulary);

/// Drafts greedily for several texts at once. A smaller model reads the texts. A prediction layer
/// also needs the trunk's hidden states: its row t is made of that of position t and token t + 1,
/// and predicts token t + 2. What it lacks makes drafts worse, but never changes an answer.
class DraftModel {
 public:
  /// draft: a model with the same vocabulary, but for up to 128 padding tokens of either, which are
  /// never drafted. Throws Error if the vocabularies differ or memory is short.
  DraftModel(const Model& draft, const Model& model, const EngineOptions& options);
  /// Drafts by the model's own prediction layer, which it must have. Throws Error if memory is
  /// short.
  DraftModel(const Model& model, const EngineOptions& options);

  /// True for a prediction layer: take() must get the hidden states of each pass.
  [[nodiscard]] bool predicts() const { return input_ != nullptr; }

  /// A text as the draft model sees it.
  struct Text {
    Sequence sequence;
    // Used by a prediction layer only.
    std::size_t begin = 0;       ///< position of the first row
    std::size_t rows = 0;        ///< rows in the sequence without drafts
    std::vector<float> waiting;  ///< hidden states of the positions behind them
    std::vector<float> last;     ///< the layer's own hidden state behind the last draft token
  };
  /// Returns an empty text. scope, shared: as Sequence's.
  [[nodiscard]] Text text(std::uint64_t scope, bool shared);
  /// Takes the trunk's hidden states [n][n_embd] of positions first, first + 1 … of `tokens`, the
  /// text so far. Evaluates them in rounds of some tokens.
  void take(Text& text, std::span<const TokenId> tokens, std::size_t first,
            std::span<const float> hidden);

  struct DraftRequest {
    Text* of;
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
  DraftModel(const Model& draft, const Model& model, const EngineOptions& options, GraphPart part);
  bool pass(std::span<const DraftRequest> requests, std::size_t& most_read);
  std::size_t add(const DraftRequest& request, std::size_t most_read);
  std::size_t add_text(const DraftRequest& request, std::size_t most_read);
  std::size_t add_row(const DraftRequest& request);
  std::size_t add_rows(Text& text, std::span<const TokenId> tokens, std::size_t most,
                       bool with_logits);
  bool evaluate(Sequence& sequence, std::size_t first_wanted);
  void seek(Text& text, std::span<const TokenId> tokens, std::size_t first);

  Engine engine_;
  Batch batch_;
  const std::size_t n_vocab_;   // token ids of both models
  std::size_t rows_ = 0;        // first logits that this draft is chosen from
  float* const input_;          // rows of the prediction layer's hidden states; null: a model
  const std::size_t n_hidden_;  // floats of such a row
  std::vector<TokenId> added_;
  std::vector<const DraftRequest*> complete_;  // requests whose text this pass completes, by row
};

}  // namespace cria
