// Speculative decoding: drafts of the next tokens are evaluated together with the certain token,
// since a pass over the weights costs hardly more for several tokens than for one. A draft token
// counts if it is the token sampled there, so drafts never change the output.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/session/answer.h"
#include "model/token_id.h"

namespace cria {

inline constexpr std::size_t kMaxDraft = 15;  ///< max tokens of a draft

/// n-gram lookup: writes up to `most` tokens that followed the longest (then latest) earlier
/// occurrence of the text's end, continuing through the draft itself. Searches the reference text
/// `expected` first. Returns the number of matching tokens: 0, and no draft, for fewer than two.
std::size_t ngram_draft(std::span<const TokenId> text, std::span<const TokenId> expected,
                        std::size_t most, std::vector<TokenId>& draft);

/// Confidence of drafts for DraftControl, as a number of matching tokens: of text that a constraint
/// leaves no choice about, and of a draft model.
inline constexpr std::size_t kForcedAgrees = 32, kModelAgrees = 4;

/// Chooses draft lengths that minimize the time per token, from acceptance rates and measured pass
/// times. A pass is measured relative to nearby passes of other sizes, so that load by other
/// programs changes no ratio and outliers are outvoted. Lengths that do not pay are retried now and
/// then. The cost is bounded by a share of the time so far and by what drafts have gained.
class DraftControl {
 public:
  DraftControl();
  /// A planned pass of several answers.
  struct Pass {
    std::size_t tokens = 1;  ///< certain tokens and drafts so far
    double waits = 1;        ///< sum over the answers of 1 / (1 + accepted draft tokens)
    std::size_t certain = 1;
  };
  /// Returns the draft length for a pass of one answer. agree: matching tokens of ngram_draft().
  [[nodiscard]] std::size_t length(std::size_t agree) const { return length(agree, {}); }
  /// Returns the length for one more answer of a pass; writes the `waits` that it expects then.
  [[nodiscard]] std::size_t length(std::size_t agree, Pass pass, double* waits = nullptr) const;
  /// Records a pass of one certain token and a draft.
  void passed(std::size_t agree, std::size_t drafted, std::size_t accepted, double seconds) {
    passed(1, 1, drafted, accepted, seconds);
    drafted_one(agree, drafted, accepted);
  }
  /// Records a pass of certain tokens, one for each of the answers, and all of their drafts.
  void passed(std::size_t certain, std::size_t answers, std::size_t drafted, std::size_t accepted,
              double seconds);
  /// Records one draft. None drafted: earlier rates lose weight.
  void drafted_one(std::size_t agree, std::size_t drafted, std::size_t accepted);
  /// Records other time spent on the answer.
  void spent(double seconds) { other_seconds_ += seconds; }

 private:
  static constexpr std::size_t kSizes = 256;  // passes of fewer tokens are measured
  struct Rate {
    double right, of;  // accepted and checked draft tokens, prior included
  };
  struct Measured {
    std::array<double, 3> last{};     // latest costs, in passes of one token
    std::size_t count = 0, turn = 0;  // number of passes; turn of the last one
    std::size_t trust = 0;            // turns until it is doubted
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
  std::array<double, kSizes> curve_{};  // cost of a pass by its tokens, in passes of one token
  std::array<Recent, 8> recent_{};      // ring of the latest passes
  std::size_t turn_ = 0;                // passes so far
  std::size_t reach_ = 0;               // max tokens of a pass to try
  // Passes since one without drafts; since one without drafts or with an accepted token.
  std::size_t since_plain_ = 0, since_accepted_ = 0;
  double budget_;  // draft budget: loss allowed now, in passes of one token
  double other_seconds_ = 0;
};

/// The draft of an answer's next pass.
struct DraftChoice {
  std::size_t agree = 0;  ///< confidence, as for DraftControl
  std::size_t of_model =
      0;  ///< number of tokens for the draft model to write; 0: the draft is complete
};

/// The source of drafts besides forced text and n-gram lookup.
enum class DraftSource : std::uint8_t {
  Text,    ///< nothing else
  Model,   ///< a draft model, which replaces them
  Layers,  ///< the model's prediction layer, unless a long match makes lookup surer
};

/// Chooses a draft of up to `most` tokens by the answer's options and adds its length to the pass.
/// It is empty if drafting would not pay.
DraftChoice choose_draft(Answer& answer, DraftSource source, std::size_t most,
                         const DraftControl& control, DraftControl::Pass& pass,
                         std::vector<TokenId>& draft);

}  // namespace cria
