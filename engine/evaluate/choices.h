// Multiple choice: which continuation of a question a model finds most likely.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace cria {

struct ChoiceQuestion {
  std::string question;
  std::vector<std::string>
      choices;             ///< joined to the question by a space, unless there is white space
  std::size_t answer = 0;  ///< index of the right one
};

struct ChoiceScores {
  std::vector<double> log_p;  ///< of each choice after the question
  std::size_t likeliest = 0;  ///< by log_p / bytes of the choice, which does not punish long ones
  std::size_t likeliest_raw = 0;  ///< by log_p
  std::size_t evaluated = 0;      ///< tokens
};

/// Scores a question's choices, as many at once as the engine has sequences; what they share is
/// evaluated once where the engine keeps prefixes. Throws Error for an empty question or choice,
/// for what does not fit into the context, and as Scorer.
ChoiceScores score_choices(Engine& engine, const ChoiceQuestion& question);

/// Throws Error as score_choices() would for this question; nothing is evaluated.
void require_scorable(const Engine& engine, const ChoiceQuestion& question);

}  // namespace cria
