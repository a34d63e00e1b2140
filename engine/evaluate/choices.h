// Multiple choice: finds the most likely continuation of a question.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"

namespace cria {

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
