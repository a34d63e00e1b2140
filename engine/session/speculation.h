// Guesses of what comes next, evaluated together with the token that is certain: a pass over the weights costs hardly
// more for a few tokens than for one. The text does not depend on them: a guess counts where it is what is drawn.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "model/token_id.h"

namespace cria {

inline constexpr std::size_t kMostDraft = 15;  ///< tokens that are guessed at once

/// Writes what followed the longest earlier occurrence of the text's end (the latest of several), at most `most` tokens, going
/// on through itself where it meets the end. `expected`: a text that is looked at first. Returns how many tokens
/// agree: 0, and no draft, where it is fewer than two.
std::size_t look_up_draft(std::span<const TokenId> text, std::span<const TokenId> expected, std::size_t most,
                          std::vector<TokenId>& draft);

/// A smaller model with the same vocabulary that guesses greedily.
class DraftModel {
 public:
  /// Throws Error where the vocabularies differ, or the machine has not enough memory.
  DraftModel(const Model& draft, const Model& model, const EngineOptions& options);
  void guess(std::span<const TokenId> text, std::size_t most, std::vector<TokenId>& draft);

 private:
  TokenId likeliest(std::span<const TokenId> text);

  const std::shared_ptr<const Model> owner_;
  Engine engine_;
  Sequence sequence_;
  Batch batch_;
};

/// How many tokens to guess: what makes most tokens a second, from how often guesses were right and from what
/// passes took here. What guessing may cost is bounded by a fiftieth of the time so far and by what it has gained.
class DraftControl {
 public:
  /// agree: tokens that look_up_draft() found to agree.
  [[nodiscard]] std::size_t length(std::size_t agree) const;
  /// A pass of one certain token and a draft took so long.
  void passed(std::size_t agree, std::size_t drafted, std::size_t kept, double seconds);
  /// Time that was spent otherwise for the answer.
  void spent(double seconds) { elapsed_ += seconds; }

 private:
  struct Rate {
    double right, of;  // of guesses that were looked at; the prior is some of these
  };
  static std::size_t bucket(std::size_t agree) { return agree < 4 ? 0 : agree < 8 ? 1 : agree < 16 ? 2 : 3; }
  [[nodiscard]] double cost(std::size_t tokens) const;
  [[nodiscard]] double purse() const { return elapsed_ / 50 + balance_; }

  std::array<Rate, 4> rates_{{{2, 4}, {3, 4}, {3.4, 4}, {3.7, 4}}};
  std::array<double, kMostDraft + 2> costs_{};  // seconds of a pass by its tokens; 0: not known
  double elapsed_ = 0, balance_ = 0;
};

}  // namespace cria
