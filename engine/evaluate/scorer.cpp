#include "engine/evaluate/scorer.h"

#include <algorithm>

#include "engine/evaluate/perplexity.h"
#include "engine/model_parts.h"
#include "engine/session/prefix_cache.h"
#include "model/plural.h"

namespace cria {

// A text waits while another one with a common prefix is prefilled.
bool Scorer::may_begin(const Scoring& text) const {
  constexpr std::size_t kWorthWaiting = 16;  // tokens
  if (engine_.must_wait(Engine::pages_of(text.tokens.size()))) return false;
  return !shared_ || std::ranges::none_of(live_, [&text](const Scoring* other) {
    const std::size_t common = common_prefix(other->tokens, text.context());
    return common >= kWorthWaiting && common > other->done();
  });
}

void Scorer::begin(Scoring& text) {
  text.sequence.emplace(engine_, scope_, shared_);
  text.sequence->reserve(Engine::pages_of(text.tokens.size()));
  if (shared_) text.sequence->reuse(text.context());
  live_.push_back(&text);
}

void Scorer::add_to(Batch& batch, Scoring& text) {
  const std::size_t done = text.done();
  const std::size_t n = std::min(batch.capacity_left(), text.tokens.size() - 1 - done);
  if (n == 0) return;
  const std::size_t wanted = std::clamp(text.first - 1, done, done + n);
  batch.add(*text.sequence, text.tokens.subspan(done, n), wanted - done);
  for (std::size_t i = wanted; i < done + n; ++i) rows_.push_back({&text, i + 1, true});
}

void Scorer::fill(Batch& batch, bool may_wait) {
  rows_.clear();
  for (Scoring* const text : live_) add_to(batch, *text);
  while (next_ < texts_.size() && batch.capacity_left() > 0 &&
         (may_begin(texts_[next_]) || (live_.empty() && !may_wait))) {
    begin(texts_[next_++]);
    add_to(batch, *live_.back());
  }
}

bool Scorer::pass(const ScorerHooks& hooks) {
  if (live_.empty() && next_ == texts_.size()) return false;
  Batch batch(engine_);
  fill(batch, hooks.wait != nullptr);
  const std::size_t n = batch.size();
  if (n == 0) return hooks.wait(), true;
  if (!hooks.forward(batch)) return true;
  evaluated_ += n;
  take_rows(batch, hooks);
  std::erase_if(live_, [](Scoring* text) {
    const bool over = text->over();
    if (over) text->sequence.reset();
    return over;
  });
  return true;
}

void Scorer::take_rows(Batch& batch, const ScorerHooks& hooks) {
  const std::size_t n_vocab = engine_.model().vocabulary_size();
  for (std::size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
    hooks.before_logits();
    end = std::min(rows_.size(), begin + engine_.logit_rows());
    const std::span<const float> logits = batch.logits(begin, end);
    engine_.parallel(end - begin, [&](std::size_t i) {
      take(rows_[begin + i], logits.subspan(i * n_vocab, n_vocab));
    });
    for (const Row& row : std::span(rows_).subspan(begin, end - begin))
      if (!row.finite) throw engine_.not_finite(*row.of->sequence, row.token - 1);
  }
}

void Scorer::take(Row& row, std::span<const float> logits) const {
  row.finite = all_finite(logits);
  if (!row.finite) return;
  const double log_sum = engine_.options().kernels->log_sum_exp(logits.data(), logits.size());
  const auto target = static_cast<std::size_t>(row.of->tokens[row.token]);
  const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
  row.of->to[row.token - row.of->first] = {logits[target] - log_sum,
                                           static_cast<TokenId>(likeliest)};
}

TextWindows::TextWindows(std::size_t n_tokens, const PerplexityOptions& options)
    : n_tokens_(n_tokens), window_(options.window), stride_(options.stride) {
  if (const std::size_t least = stride_ == 0 ? 3 : 2;
      window_ < least)  // otherwise nothing is scored
    throw Error("", "the window is too short: expected at least " + counted(least, "token") +
                        ", got " + std::to_string(window_));
  if (stride_ > window_)
    throw Error("", "the stride is longer than the window: expected up to " +
                        counted(window_, "token") + ", got " + std::to_string(stride_));
  if (n_tokens_ < window_)
    throw Error("", "the text is too short: expected at least a window of " +
                        counted(window_, "token") + ", got " + std::to_string(n_tokens_));
  // With a stride, the last window may be shorter; without, the rest of the text is not used.
  count_ = stride_ == 0 ? n_tokens_ / window_ : 1 + (n_tokens_ - window_ + stride_ - 1) / stride_;
  if (options.max_windows != 0) count_ = std::min<std::size_t>(count_, options.max_windows);
}

TextWindow TextWindows::operator[](std::size_t i) const {
  if (stride_ == 0) return {i * window_, (i + 1) * window_, i * window_ + window_ / 2 + 1};
  const std::size_t begin = i * stride_;
  // The first token has no context.
  const std::size_t first = i == 0 ? 1 : std::max(begin + 1, begin - stride_ + window_);
  return {begin, std::min(begin + window_, n_tokens_), first};
}

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
