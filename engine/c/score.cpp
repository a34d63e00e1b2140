// The C interface: scores of texts and perplexity.
#include "engine/c/objects.h"
#include "engine/evaluate/perplexity.h"
#include "engine/model_parts.h"

namespace cria::c_api {
namespace {

/// A scorer on a shared engine, one turn per pass.
class SharedScorer {
 public:
  SharedScorer(EngineObject& engine, std::uint64_t scope, bool shared)
      : engine_(engine),
        cancels_(engine.cancels()),
        scorer_(std::in_place, engine.engine, scope, shared) {}
  ~SharedScorer() {
    const EngineObject::Turn turn(engine_);
    scorer_.reset();
  }
  SharedScorer(const SharedScorer&) = delete;
  SharedScorer& operator=(const SharedScorer&) = delete;

  /// The scorer, to add texts before run().
  Scorer& operator*() { return *scorer_; }
  void run() {
    const ScorerHooks hooks{[this](Batch& batch) { return engine_.forward(batch, cancels_); },
                            [this] { engine_.check_cancels(cancels_); },
                            [this] { engine_.step(); }};
    while (pass(hooks)) engine_.check_cancels(cancels_);
  }

 private:
  bool pass(const ScorerHooks& hooks) {
    const EngineObject::Turn turn(engine_);
    const StopOn stop_on = engine_.stopped_by_cancels();
    return scorer_->pass(hooks);
  }

  EngineObject& engine_;
  const std::uint64_t cancels_;
  std::optional<Scorer> scorer_;
};

void check_tokens(const Model& model, std::span<const TokenId> tokens) {
  const auto n_vocab = static_cast<TokenId>(model.vocabulary_size());
  for (const TokenId token : tokens)
    if (token < 0 || token >= n_vocab)
      throw model.file().error("no such token: expected 0 to " + std::to_string(n_vocab - 1) +
                               ", got " + std::to_string(token));
}

/// Checks the texts' tokens; returns how many are scored.
std::size_t checked(const Model& model, std::span<const cria_scored> texts) {
  std::size_t scored = 0;
  for (const cria_scored& text : texts) {
    if (text.first == 0 || text.first > text.n_tokens)
      throw Failure(CRIA_ERROR_ARGUMENT,
                    "the first scored token is the first of the text, or beyond its end");
    check_tokens(model, array(text.tokens, text.n_tokens, "tokens"));
    scored += text.n_tokens - text.first;
  }
  return scored;
}

std::vector<TokenScore> scores_of(EngineObject& engine, std::span<const cria_scored> texts,
                                  std::size_t n, std::uint64_t scope) {
  std::vector<TokenScore> scores(n);
  SharedScorer scorer(engine, scope, true);
  TokenScore* to = scores.data();
  for (const cria_scored& text : texts) {
    (*scorer).add({text.tokens, text.n_tokens}, text.first, to);
    to += text.n_tokens - text.first;
  }
  scorer.run();
  return scores;
}

PerplexityOptions perplexity_options(const cria_perplexity_options& given) {
  PerplexityOptions options;
  if (given.window != 0) options.window = given.window;
  options.stride = given.stride;
  options.max_windows = given.max_windows;
  return options;
}

cria_perplexity_result perplexity(EngineObject& engine, std::string_view text,
                                  const PerplexityOptions& options) {
  const Model& model = *engine.model->model;
  ScoredWindows windows(model, perplexity_tokens(model, text), options);
  SharedScorer scorer(engine, 0, false);
  windows.add_to(*scorer);
  scorer.run();
  const PerplexityResult result = windows.result();
  return {0, result.ppl, result.ppl_stderr, result.tokens, result.windows};
}

}  // namespace
}  // namespace cria::c_api

using namespace cria::c_api;

cria_status cria_score_tokens(cria_engine engine, const cria_scored* texts, size_t n_texts,
                              uint64_t scope, cria_score* scores, size_t capacity, size_t* count) {
  return call([&] {
    const auto of = object<EngineObject>(engine.id);
    const auto all = array(texts, n_texts, "texts");
    required(count, "count") = checked(*of->model->model, all);
    if (*count > capacity) throw too_small(cria::counted(*count, "score"), capacity);
    array(scores, *count, "scores");
    for (const cria::TokenScore& score : scores_of(*of, all, *count, scope))
      *scores++ = {score.log_p, score.likeliest, 0};
  });
}

cria_status cria_perplexity(cria_engine engine, const char* text, size_t text_size,
                            const cria_perplexity_options* options,
                            cria_perplexity_result* result) {
  return call([&] {
    const auto of = object<EngineObject>(engine.id);
    const cria::PerplexityOptions how = perplexity_options(taken(options));
    checked_size(required(result, "result"));
    give(result, perplexity(*of, cria::c_api::text(text, text_size, "text"), how), "result");
  });
}
