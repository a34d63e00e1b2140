#include "engine/evaluate/choices.h"
#include "engine/session/common_prefix.h"

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

// Σ log p of tokens[first…], each by those before it; returns how many tokens were evaluated. What the
// session has of their beginning already is not evaluated again.
std::size_t add_log_p(Session& session, std::span<const TokenId> tokens, std::size_t first, double& log_p) {
  const std::span<const TokenId> inputs = tokens.first(tokens.size() - 1);
  const std::size_t known = session.truncate(std::min(common_prefix(session.tokens(), inputs), first - 1));
  for (std::size_t done = known, n = 0; done < inputs.size(); done += n) {
    n = std::min<std::size_t>(session.options().n_batch, inputs.size() - done);
    const std::size_t wanted = std::clamp(first - 1, done, done + n) - done;
    session.forward(inputs.subspan(done, n), wanted);
    for (std::size_t i = wanted; i < n; ++i) {
      const std::span<const float> row = session.logits(i, i + 1);
      const double log_sum = session.options().kernels->log_sum_exp(row.data(), row.size());
      log_p += row[static_cast<std::size_t>(tokens[done + i + 1])] - log_sum;
    }
  }
  return inputs.size() - known;
}

}  // namespace

ChoiceScores score_choices(Session& session, const ChoiceQuestion& question) {
  if (question.question.empty()) throw Error("", "an empty question");
  const Model& model = session.model();
  const std::vector<TokenId> context = perplexity_tokens(model, question.question);
  ChoiceScores scores;
  std::vector<double> per_byte;
  for (const std::string& choice : question.choices) {
    if (choice.empty()) throw Error("", "an empty choice");
    const std::vector<TokenId> tokens = perplexity_tokens(model, joined(question.question, choice));
    // Where the last word of the question and the choice became one token, that token is the choice's. The
    // first token of all has nothing before it.
    const std::size_t first = std::max<std::size_t>(1, common_prefix(context, tokens));
    if (tokens.size() - 1 > session.options().n_ctx)
      throw Error("", "a choice does not fit into the context with its question: expected at most " +
                          counted(session.options().n_ctx + 1, "token") + ", got " +
                          std::to_string(tokens.size()) + " (-c N makes the context larger)");
    scores.evaluated += add_log_p(session, tokens, first, scores.log_p.emplace_back(0));
    per_byte.push_back(scores.log_p.back() / static_cast<double>(choice.size()));
  }
  const auto largest = [](const std::vector<double>& values) {
    return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
  };
  scores.likeliest = largest(per_byte);
  scores.likeliest_raw = largest(scores.log_p);
  return scores;
}

}  // namespace cria
