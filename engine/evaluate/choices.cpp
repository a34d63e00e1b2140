#include "engine/evaluate/choices.h"
#include "engine/session/prefix_cache.h"

#include <algorithm>

#include "engine/evaluate/perplexity.h"
#include "engine/model_parts.h"
#include "model/plural.h"

namespace cria {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

std::string joined(const std::string& question, const std::string& choice) {
  const bool spaced = is_space(question.back()) || is_space(choice.front());
  return question + (spaced ? "" : " ") + choice;
}

/// A question with a choice, which has the tokens from `first` on.
struct ScoredChoice {
  std::vector<TokenId> tokens;
  std::size_t first;
  std::vector<TokenScore> scores = {};

  [[nodiscard]] double log_p() const {
    double sum = 0;
    for (const TokenScore& score : scores) sum += score.log_p;
    return sum;
  }
};

ScoredChoice scored_choice(const Engine& engine, const ChoiceQuestion& question,
                           std::span<const TokenId> context, const std::string& choice) {
  if (choice.empty()) throw Error("", "an empty choice");
  std::vector<TokenId> tokens =
      perplexity_tokens(engine.model(), joined(question.question, choice));
  const std::size_t n_ctx = engine.options().n_ctx;
  if (tokens.size() - 1 > n_ctx)
    throw Error("", "the question with a choice exceeds the context: expected up to " +
                        counted(n_ctx + 1, "token") + ", got " + std::to_string(tokens.size()) +
                        " (-c N makes the context larger)");
  // A token that spans question and choice belongs to the choice. The first token has no context.
  const std::size_t first = std::max<std::size_t>(1, common_prefix(context, tokens));
  const std::size_t n = tokens.size() - std::min(first, tokens.size());
  return {std::move(tokens), first, std::vector<TokenScore>(n)};
}

std::vector<ScoredChoice> scored_choices(const Engine& engine, const ChoiceQuestion& question) {
  if (question.question.empty()) throw Error("", "an empty question");
  const std::vector<TokenId> context = perplexity_tokens(engine.model(), question.question);
  std::vector<ScoredChoice> choices;
  for (const std::string& choice : question.choices)
    choices.push_back(scored_choice(engine, question, context, choice));
  return choices;
}

}  // namespace

void require_scorable(const Engine& engine, const ChoiceQuestion& question) {
  static_cast<void>(scored_choices(engine, question));
}

ChoiceScores score_choices(Engine& engine, const ChoiceQuestion& question) {
  std::vector<ScoredChoice> choices = scored_choices(engine, question);
  Scorer scorer(engine);
  for (ScoredChoice& choice : choices)
    scorer.add(choice.tokens, choice.first, choice.scores.data());
  while (scorer.pass()) continue;
  ChoiceScores scores;
  std::vector<double> per_byte;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    scores.log_p.push_back(choices[i].log_p());
    per_byte.push_back(scores.log_p[i] / static_cast<double>(question.choices[i].size()));
  }
  const auto largest = [](const std::vector<double>& values) {
    return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
  };
  scores.likeliest = largest(per_byte);
  scores.likeliest_raw = largest(scores.log_p);
  scores.evaluated = scorer.evaluated();
  return scores;
}

}  // namespace cria
