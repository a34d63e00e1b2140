// Guesses of what comes next, evaluated together with the token that is certain: a pass over the weights costs hardly
// more for a few tokens than for one. The text does not depend on them: a guess counts where it is what is drawn.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "model/token_id.h"

namespace cria {

inline constexpr std::size_t kMostDraft = 15;  ///< tokens that are guessed at once
/// For DraftControl: what speaks for a text that a constraint leaves no choice about, and for a model's guesses.
inline constexpr std::size_t kForcedAgrees = 32, kModelAgrees = 4;

/// Writes what followed the longest earlier occurrence of the text's end (the latest of several), at most `most` tokens, going
/// on through itself where it meets the end. `expected`: a text that is looked at first. Returns how many tokens
/// agree: 0, and no draft, where it is fewer than two.
std::size_t look_up_draft(std::span<const TokenId> text, std::span<const TokenId> expected, std::size_t most,
                          std::vector<TokenId>& draft);

/// A smaller model with the same vocabulary that guesses greedily, for several texts at once. One of both may have up to 128 tokens more,
/// which are never guessed: the files of a family are padded to different lengths.
class DraftModel {
 public:
  /// options: of the engine that it guesses for. Throws Error where the vocabularies differ, or the machine has not
  /// enough memory.
  DraftModel(const Model& draft, const Model& model, const EngineOptions& options);
  /// What it holds of a text.
  [[nodiscard]] Sequence sequence(std::uint64_t scope = 0, bool shared = true) {
    return Sequence(engine_, scope, shared);
  }
  struct Guess {
    Sequence* sequence;
    std::span<const TokenId> text;
    std::size_t most;  ///< tokens of the draft
    /// Fewer where the context ends, or the text has not all been read; none of a text that it cannot read.
    std::vector<TokenId>* draft;
  };
  /// Reads what is new of the texts, at most so many tokens of all, and writes the drafts. Throws EvaluationStopped once `stop` (may be
  /// null) is set: drafts may be shorter then.
  void guess(std::span<const Guess> guesses, std::size_t most_read, const std::atomic<bool>* stop = nullptr);

 private:
  bool pass(std::span<const Guess> guesses, std::size_t& most_read);
  std::size_t add(const Guess& guess, std::size_t most_read);

  const std::shared_ptr<const Model> owner_;
  Engine engine_;
  Batch batch_;
  const std::size_t n_vocab_;  // logits that both models have
  std::vector<TokenId> added_;
  std::vector<const Guess*> complete_;  // of this pass, in the order of their rows
};

/// What a draft model needs for an engine with these options.
EngineMemory draft_memory(const Model& draft, const EngineOptions& options);

/// How many tokens to guess: what lets the answers wait least for their tokens, from how often guesses were right and
/// from what passes took here. A pass of several tokens is measured in its neighbours of other sizes, so that a machine
/// that others use for a while changes no ratio, and a slow moment is outvoted by the passes around it. What seems not
/// to pay is tried again from time to time. What guessing may cost is bounded by a part of the time so far and by what
/// it has gained.
class DraftControl {
 public:
  DraftControl();
  /// A pass of several answers.
  struct Pass {
    std::size_t tokens = 1;  ///< certain ones, and drafts that are in it already
    double waits = 1;  ///< passes for a token, of all that wait for this one: 1 / (1 + guesses that are kept)
    std::size_t certain = 1;  ///< of the tokens
  };
  /// agree: tokens that look_up_draft() found to agree.
  [[nodiscard]] std::size_t length(std::size_t agree) const { return length(agree, {}); }
  /// More for one of the answers of a pass. waits becomes what is expected then.
  [[nodiscard]] std::size_t length(std::size_t agree, Pass pass, double* waits = nullptr) const;
  /// A pass of one certain token and a draft took so long.
  void passed(std::size_t agree, std::size_t drafted, std::size_t kept, double seconds) {
    passed(1, 1, drafted, kept, seconds);
    guessed(agree, drafted, kept);
  }
  /// A pass of so many certain tokens, of which each of the answers has one, and drafts for all together.
  void passed(std::size_t certain, std::size_t answers, std::size_t drafted, std::size_t kept,
              double seconds);
  /// Of one draft so many were right. None drafted: what is known of such guesses loses weight.
  void guessed(std::size_t agree, std::size_t drafted, std::size_t kept);
  /// Time that was spent otherwise for the answer.
  void spent(double seconds) { other_seconds_ += seconds; }

 private:
  static constexpr std::size_t kSizes = 256;  // tokens of passes that are told apart
  struct Rate {
    double right, of;  // of guesses that were looked at; the prior is some of these
  };
  struct Measured {
    std::array<double, 3> last{};     // the latest, in passes of one token
    std::size_t count = 0, turn = 0;  // how many there were; when there last was such a pass
    std::size_t trust = 0;            // passes after which it is doubted
    void add(double cost, double expected);
    [[nodiscard]] double cost() const;
  };
  struct Recent {
    std::size_t tokens;
    double seconds;
  };
  static std::size_t bucket(std::size_t agree) { return agree < 4 ? 0 : agree < 8 ? 1 : agree < 16 ? 2 : 3; }
  [[nodiscard]] double unit_beside(std::size_t tokens) const;
  double measure(std::size_t tokens, double seconds);
  void earn(double units);
  void draw_curve();

  std::array<Rate, 4> rates_;
  std::array<Measured, kSizes> measured_{};
  std::array<double, kSizes> curve_{};  // cost of a pass by its tokens, in passes of one
  std::array<Recent, 8> recent_{};      // the latest passes, in a ring
  std::size_t turn_ = 0;                // passes so far
  std::size_t reach_ = 0;               // the largest size that is tried
  // Passes since one without guesses; since one that kept some, or was without.
  std::size_t since_plain_ = 0, since_kept_ = 0;
  double purse_;  // what may be lost now, in passes of one token
  double other_seconds_ = 0;
};

}  // namespace cria
