// How likely a model finds the tokens of texts: many texts at once on an engine.
//
//   Scorer scorer(engine);
//   scorer.add(tokens, first, scores);   // of each text
//   while (scorer.pass()) continue;
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace cria {

/// What a model says about a token of a text, from the tokens before it.
struct TokenScore {
  double log_p = 0;       ///< natural logarithm of its probability
  TokenId likeliest = 0;  ///< the token with the highest logit, the lowest id among equals
};

/// For whoever shares the engine of a scorer with others.
struct ScorerHooks {
  /// Instead of batch.forward(); false: it was broken off, and nothing was evaluated.
  std::function<bool(Batch& batch)> forward = [](Batch& batch) { return batch.forward(), true; };
  /// Called before logits are computed; what it throws ends the pass.
  std::function<void()> before_logits = [] {};
  /// Called in place of a pass while others, who end by themselves, have all sequences or pages;
  /// empty: that is an Error.
  std::function<void()> wait = {};
};

/// Texts on sequences of an engine, several in each pass. The bits of a score do not depend on what
/// else is scored.
class Scorer {
 public:
  /// The engine outlives it. shared: what is known of the scope's texts is used (where the engine
  /// keeps prefixes), and what is read is known to others.
  explicit Scorer(Engine& engine, std::uint64_t scope = 0, bool shared = true)
      : engine_(engine), scope_(scope), shared_(shared && engine.options().prefix_cache) {}

  /// The tokens from `first` (at least 1) on get a score each, at `to`; both are there until the
  /// end, and fit into the engine's context but for the last token.
  void add(std::span<const TokenId> tokens, std::size_t first, TokenScore* to) {
    if (first < tokens.size()) texts_.push_back({tokens, first, to});
  }
  /// Evaluates what fits into a batch; false: there was nothing left. Throws Error as Batch, and
  /// for logits that are not finite.
  bool pass(const ScorerHooks& hooks = {});
  /// Tokens that were evaluated; what was known is not among them.
  [[nodiscard]] std::uint64_t evaluated() const { return evaluated_; }

 private:
  /// A text that is being scored. Its last token predicts nothing that is scored, and is not
  /// evaluated.
  struct Scoring {
    std::span<const TokenId> tokens;
    std::size_t first;  // token that is scored
    TokenScore* to;     // its score
    std::optional<Sequence> sequence = {};

    [[nodiscard]] std::size_t done() const { return sequence->tokens().size(); }
    [[nodiscard]] bool over() const { return done() + 1 == tokens.size(); }
    /// What comes before the token from which on logits are wanted, and may be known.
    [[nodiscard]] std::span<const TokenId> context() const { return tokens.first(first - 1); }
  };
  struct Row {
    Scoring* of;
    std::size_t token;
    bool finite;
  };

  void fill(Batch& batch, bool may_wait);
  void add_to(Batch& batch, Scoring& text);
  [[nodiscard]] bool may_begin(const Scoring& text) const;
  void begin(Scoring& text);
  void take_rows(Batch& batch, const ScorerHooks& hooks);
  void take(Row& row, std::span<const float> logits) const;

  Engine& engine_;
  const std::uint64_t scope_;
  const bool shared_;
  std::uint64_t evaluated_ = 0;
  std::vector<Scoring> texts_;
  std::size_t next_ = 0;  // text that has not begun
  std::vector<Scoring*> live_;
  std::vector<Row> rows_;  // of the pass
};

}  // namespace cria
