// How many tokens a draft has: decided by how often drafts were right and by what passes took.
#pragma once

#include <array>
#include <cstddef>

#include "engine/session/ngram_draft.h"

namespace cria {

/// For DraftControl: what speaks for a text that a constraint leaves no choice about, and for a
/// model's guesses.
inline constexpr std::size_t kForcedAgrees = 32, kModelAgrees = 4;

/// How many tokens to guess: what lets the answers wait least for their tokens, from how often
/// guesses were right and from what passes took here. A pass of several tokens is measured in its
/// neighbours of other sizes, so that a machine that others use for a while changes no ratio, and a
/// slow moment is outvoted by the passes around it. What seems not to pay is tried again from time
/// to time. What guessing may cost is bounded by a part of the time so far and by what it has
/// gained.
class DraftControl {
 public:
  DraftControl();
  /// A pass of several answers.
  struct Pass {
    std::size_t tokens = 1;  ///< certain ones, and drafts that are in it already
    double waits =
        1;  ///< passes for a token, of all that wait for this one: 1 / (1 + guesses that are kept)
    std::size_t certain = 1;  ///< of the tokens
  };
  /// agree: tokens that ngram_draft() found to agree.
  [[nodiscard]] std::size_t length(std::size_t agree) const { return length(agree, {}); }
  /// More for one of the answers of a pass. waits becomes what is expected then.
  [[nodiscard]] std::size_t length(std::size_t agree, Pass pass, double* waits = nullptr) const;
  /// A pass of one certain token and a draft took so long.
  void passed(std::size_t agree, std::size_t drafted, std::size_t kept, double seconds) {
    passed(1, 1, drafted, kept, seconds);
    guessed(agree, drafted, kept);
  }
  /// A pass of so many certain tokens, of which each of the answers has one, and drafts for all
  /// together.
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
  static std::size_t bucket(std::size_t agree) {
    return agree < 4 ? 0 : agree < 8 ? 1 : agree < 16 ? 2 : 3;
  }
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
  double budget_;  // what may be lost now, in passes of one token
  double other_seconds_ = 0;
};

}  // namespace cria
