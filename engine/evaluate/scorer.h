// Scores the tokens of texts by their probability, many texts at once on an engine. Also divides a
// text into windows, and answers multiple-choice questions.
//
//   Scorer scorer(engine);
//   scorer.add(tokens, first, scores);   // for each text
//   while (scorer.pass()) continue;
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace cria {

/// A model's prediction of a token from the tokens before it.
struct TokenScore {
  double log_p = 0;       ///< natural logarithm of its probability
  TokenId likeliest = 0;  ///< highest logit; on a tie the lowest id
};

/// Hooks for scorers that share their engine.
struct ScorerHooks {
  /// Replaces batch.forward(). False: it was interrupted, nothing was evaluated.
  std::function<bool(Batch& batch)> forward = [](Batch& batch) { return batch.forward(), true; };
  /// Called before logits are computed. Its exceptions end the pass.
  std::function<void()> before_logits = [] {};
  /// Called instead of a pass while running answers hold all sequences or pages; empty: Error.
  std::function<void()> wait = {};
};

/// Evaluates several texts in each pass. The bits of a score do not depend on the other texts.
class Scorer {
 public:
  /// The engine outlives this. shared: use and fill the engine's prefix cache, if it has one.
  explicit Scorer(Engine& engine, std::uint64_t scope = 0, bool shared = true)
      : engine_(engine), scope_(scope), shared_(shared && engine.options().prefix_cache) {}

  /// Scores the tokens from `first` (at least 1) on into `to`. Both outlive the scoring. The tokens
  /// without the last must fit into the engine's context.
  void add(std::span<const TokenId> tokens, std::size_t first, TokenScore* to) {
    if (first < tokens.size()) texts_.push_back({tokens, first, to});
  }
  /// Evaluates one batch; false: nothing was left. Throws Error as Batch, and for NaN or infinite
  /// logits.
  bool pass(const ScorerHooks& hooks = {});
  /// Tokens evaluated, without those from the prefix cache.
  [[nodiscard]] std::uint64_t evaluated() const { return evaluated_; }

 private:
  /// A text during scoring. Its last token is not evaluated, as it predicts no scored token.
  struct Scoring {
    std::span<const TokenId> tokens;
    std::size_t first;  // first scored token
    TokenScore* to;     // its score
    std::optional<Sequence> sequence = {};

    [[nodiscard]] std::size_t done() const { return sequence->tokens().size(); }
    [[nodiscard]] bool over() const { return done() + 1 == tokens.size(); }
    /// The tokens before the first requested logits, which the prefix cache may have.
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
  std::size_t next_ = 0;  // first text not begun
  std::vector<Scoring*> live_;
  std::vector<Row> rows_;  // rows of this pass
};

struct PerplexityOptions {
  std::uint32_t window = 512;  ///< tokens per window
  /// 0: adjacent windows that begin with BOS if the model has one; the second half is scored.
  /// llama.cpp and published tables of quantizations do this. Otherwise the distance between the
  /// begins of windows, which score the tokens that no earlier window had. Papers and Hugging Face
  /// do this.
  std::uint32_t stride = 0;
  std::uint64_t max_windows = 0;  ///< 0: all
};

/// Tokens evaluated together in an empty context.
struct TextWindow {
  std::size_t begin, end;    ///< in the text
  std::size_t first_scored;  ///< tokens [first_scored, end) are scored
};

/// The windows of a text of n tokens.
class TextWindows {
 public:
  /// Throws Error for a text shorter than a window and for impossible options.
  TextWindows(std::size_t n_tokens, const PerplexityOptions& options);
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] TextWindow operator[](std::size_t i) const;

 private:
  std::size_t n_tokens_, window_, stride_, count_;
};

struct ChoiceQuestion {
  std::string question;
  std::vector<std::string> choices;  ///< appended after a space unless there is white space
  std::size_t answer = 0;            ///< index of the correct choice
};

struct ChoiceScores {
  std::vector<double> log_p;      ///< per choice, given the question
  std::size_t likeliest = 0;      ///< by log_p / bytes: independent of length
  std::size_t likeliest_raw = 0;  ///< by log_p
  std::size_t evaluated = 0;      ///< tokens
};

/// Scores a question's choices, one on each sequence of the engine at a time. With a prefix cache,
/// common prefixes are evaluated once. Throws Error for an empty question or choice, for texts that
/// exceed the context, and as Scorer.
ChoiceScores score_choices(Engine& engine, const ChoiceQuestion& question);

/// Throws Error as score_choices() would, without evaluating.
void require_scorable(const Engine& engine, const ChoiceQuestion& question);

}  // namespace cria
