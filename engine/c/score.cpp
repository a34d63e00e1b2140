// The C interface: how likely a model finds texts.
#include "engine/c/objects.h"
#include "engine/evaluate/perplexity.h"
#include "engine/model_parts.h"
#include "engine/session/common_prefix.h"
#include "engine/session/engine_state.h"

namespace cria::c_api {
namespace {

/// A text that is being scored. Its last token predicts nothing that is scored, and is not evaluated.
struct Scoring {
  std::span<const TokenId> tokens;
  std::size_t first;  // token that is scored
  cria_score* to;     // its score
  std::optional<Sequence> sequence = {};

  [[nodiscard]] std::size_t done() const { return sequence->tokens().size(); }
  [[nodiscard]] bool over() const { return done() + 1 == tokens.size(); }
  /// What comes before the token from which on logits are wanted, and may be known.
  [[nodiscard]] std::span<const TokenId> context() const { return tokens.first(first - 1); }
};

/// Texts on sequences of an engine, several in each pass.
class Scorer {
 public:
  /// shared: what is known of the scope's texts is used, and what is read is known to others.
  Scorer(EngineObject& engine, std::uint64_t scope, bool shared)
      : engine_(engine),
        scope_(scope),
        shared_(shared && engine.engine.options().keep_prefixes),
        cancels_(engine.cancels()) {}
  ~Scorer() {
    const EngineObject::Turn turn(engine_);
    live_.clear();
    texts_.clear();
  }
  Scorer(const Scorer&) = delete;
  Scorer& operator=(const Scorer&) = delete;

  /// Before run(). The tokens from `first` on get a score each.
  void add(std::span<const TokenId> tokens, std::size_t first, cria_score* to) {
    if (first < tokens.size()) texts_.push_back({tokens, first, to});
  }
  void run() {
    while (!live_.empty() || next_ < texts_.size()) {
      engine_.check_cancels(cancels_);
      pass();
    }
  }

 private:
  struct Row {
    Scoring* of;
    std::size_t token;
    bool finite;
  };

  void pass();
  void add_to(Batch& batch, Scoring& text);
  [[nodiscard]] bool may_begin(const Scoring& text) const;
  void begin(Scoring& text);
  void take_rows(Batch& batch);
  void take(Row& row, std::span<const float> logits) const;

  EngineObject& engine_;
  const std::uint64_t scope_;
  const bool shared_;
  const std::uint64_t cancels_;
  std::vector<Scoring> texts_;
  std::size_t next_ = 0;  // text that has not begun
  std::vector<Scoring*> live_;
  std::vector<Row> rows_;  // of the pass
};

// A text that begins as one that is being read waits until that has been read.
bool Scorer::may_begin(const Scoring& text) const {
  constexpr std::size_t kWorthWaiting = 16;  // tokens
  if (live_.empty()) return true;
  const Engine& engine = engine_.engine;
  if (engine.state().sequences.size() == engine.options().sequences) return false;
  std::size_t pages = Engine::pages_of(text.tokens.size());
  for (const Scoring* const other : live_) {
    pages += Engine::pages_of(other->tokens.size());
    if (!shared_) continue;
    const std::size_t common = common_prefix(other->tokens, text.context());
    if (common >= kWorthWaiting && common > other->done()) return false;
  }
  return pages <= engine.pages();
}

void Scorer::begin(Scoring& text) {
  text.sequence.emplace(engine_.engine, scope_, shared_);
  if (shared_) text.sequence->reuse(text.context());
  live_.push_back(&text);
}

void Scorer::add_to(Batch& batch, Scoring& text) {
  const std::size_t done = text.done();
  const std::size_t n = std::min(batch.room(), text.tokens.size() - 1 - done);
  if (n == 0) return;
  const std::size_t wanted = std::clamp(text.first - 1, done, done + n);
  batch.add(*text.sequence, text.tokens.subspan(done, n), wanted - done);
  for (std::size_t i = wanted; i < done + n; ++i) rows_.push_back({&text, i + 1, true});
}

void Scorer::pass() {
  const EngineObject::Turn turn(engine_);
  Batch batch(engine_.engine);
  rows_.clear();
  for (Scoring* const text : live_) add_to(batch, *text);
  while (next_ < texts_.size() && batch.room() > 0 && may_begin(texts_[next_])) {
    begin(texts_[next_++]);
    add_to(batch, *live_.back());
  }
  if (!engine_.forward(batch, cancels_)) return;
  take_rows(batch);
  std::erase_if(live_, [](Scoring* text) {
    const bool over = text->over();
    if (over) text->sequence.reset();
    return over;
  });
}

void Scorer::take_rows(Batch& batch) {
  Engine& engine = engine_.engine;
  const std::size_t n_vocab = engine.model().vocabulary_size();
  for (std::size_t begin = 0, end = 0; begin < rows_.size(); begin = end) {
    engine_.check_cancels(cancels_);
    end = std::min(rows_.size(), begin + engine.logit_rows());
    const std::span<const float> logits = batch.logits(begin, end);
    engine.parallel(end - begin,
                    [&](std::size_t i) { take(rows_[begin + i], logits.subspan(i * n_vocab, n_vocab)); });
    for (const Row& row : std::span(rows_).subspan(begin, end - begin))
      if (!row.finite) throw engine.not_finite(*row.of->sequence);
  }
}

void Scorer::take(Row& row, std::span<const float> logits) const {
  row.finite = all_finite(logits);
  if (!row.finite) return;
  const double log_sum = engine_.engine.options().kernels->log_sum_exp(logits.data(), logits.size());
  const auto target = static_cast<std::size_t>(row.of->tokens[row.token]);
  const auto likeliest = std::max_element(logits.begin(), logits.end()) - logits.begin();
  row.of->to[row.token - row.of->first] = {logits[target] - log_sum, static_cast<cria_token>(likeliest), 0};
}

void check_tokens(const Model& model, std::span<const TokenId> tokens) {
  const auto n_vocab = static_cast<TokenId>(model.vocabulary_size());
  for (const TokenId token : tokens)
    if (token < 0 || token >= n_vocab)
      throw model.file().error("no such token: expected 0 to " + std::to_string(n_vocab - 1) + ", got " +
                               std::to_string(token));
}

/// The texts' tokens, checked; how many are scored.
std::size_t checked(const Model& model, std::span<const cria_scored> texts) {
  std::size_t scored = 0;
  for (const cria_scored& text : texts) {
    if (text.first == 0 || text.first > text.n_tokens)
      throw Failure(CRIA_ERROR_ARGUMENT, "tokens are scored from one on that is not there, or the first");
    check_tokens(model, array(text.tokens, text.n_tokens, "tokens"));
    scored += text.n_tokens - text.first;
  }
  return scored;
}

PerplexityOptions perplexity_options(const cria_perplexity_options& given) {
  PerplexityOptions options;
  if (given.window != 0) options.window = given.window;
  options.stride = given.stride;
  options.max_windows = given.max_windows;
  return options;
}

/// Perplexity (engine/evaluate/perplexity.h) on sequences of an engine that others use, too.
cria_perplexity_result perplexity(EngineObject& engine, std::vector<TokenId> tokens,
                                  const PerplexityOptions& options) {
  const TextWindows windows(tokens.size(), options);
  const Vocabulary& vocabulary = engine.model->model->vocabulary();
  std::size_t scored = 0;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const TextWindow window = windows[i];
    scored += window.end - window.first_scored;
    // Such windows lie side by side, and their first tokens are not scored.
    if (options.stride == 0 && vocabulary.add_bos)
      tokens[window.begin] = vocabulary.bos.value_or(tokens[window.begin]);
  }
  std::vector<cria_score> scores(scored);
  Scorer scorer(engine, 0, false);
  std::size_t at = 0;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const TextWindow window = windows[i];
    scorer.add(std::span(tokens).subspan(window.begin, window.end - window.begin),
               window.first_scored - window.begin, scores.data() + at);
    at += window.end - window.first_scored;
  }
  scorer.run();
  MeanVariance surprise;
  for (const cria_score& score : scores) surprise.add(-score.logprob);
  const double value = std::exp(surprise.mean);
  return {0, value, value * surprise.error(), surprise.n, windows.size()};
}

}  // namespace
}  // namespace cria::c_api

using namespace cria::c_api;

cria_status cria_score_tokens(cria_engine engine, const cria_scored* texts, size_t n_texts, uint64_t scope,
                              cria_score* scores, size_t capacity, size_t* count) {
  return call([&] {
    const auto of = object<EngineObject>(engine.id);
    const auto all = array(texts, n_texts, "texts");
    required(count, "count") = checked(*of->model->model, all);
    if (*count > capacity)
      throw Failure(CRIA_ERROR_ROOM, "room for " + cria::counted(*count, "score") +
                                         " is needed, there is room for " + std::to_string(capacity));
    array(scores, *count, "scores");
    Scorer scorer(*of, scope, true);
    cria_score* to = scores;
    for (const cria_scored& text : all) {
      scorer.add({text.tokens, text.n_tokens}, text.first, to);
      to += text.n_tokens - text.first;
    }
    scorer.run();
  });
}

cria_status cria_perplexity(cria_engine engine, const char* text, size_t text_size,
                            const cria_perplexity_options* options, cria_perplexity_result* result) {
  return call([&] {
    const auto of = object<EngineObject>(engine.id);
    const cria::PerplexityOptions how = perplexity_options(taken(options));
    checked_size(required(result, "result"));
    const std::string_view bytes = cria::c_api::text(text, text_size, "text");
    give(result, perplexity(*of, cria::perplexity_tokens(*of->model->model, bytes), how), "result");
  });
}
