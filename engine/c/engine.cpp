// The C interface: engines, sequences, logits, embeddings.
#include <set>

#include "engine/c/objects.h"
#include "engine/model_parts.h"

namespace cria::c_api {
namespace {

EngineOptions engine_options(const cria_engine_options& given) {
  EngineOptions options;
  options.n_ctx = given.n_ctx;
  if (given.n_batch != 0) options.n_batch = given.n_batch;
  options.threads = given.threads;
  options.threads_prefill = given.threads_prefill;
  if (given.sequences != 0) options.sequences = given.sequences;
  options.prefix_cache = given.no_prefix_cache == 0;
  options.positions = given.positions;
  if (given.kv_type != nullptr) options.kv_type = parse_kv_type(given.kv_type);
  options.own_drafts = true;
  if (given.draft.id != 0) options.draft = object<ModelObject>(given.draft.id)->model;
  return options;
}

/// A slice of which `done` tokens are evaluated.
struct Evaluation {
  std::shared_ptr<SequenceObject> of;
  std::span<const TokenId> tokens;
  std::size_t first_wanted, done = 0;
  std::size_t in_pass = 0, wanted_in_pass = 0;
  bool reserved_pages = false;  // pages for the rest are reserved

  /// Adds the next of the remaining tokens, up to the batch's capacity.
  void add_to(Batch& batch) {
    in_pass = std::min(batch.capacity_left(), tokens.size() - done);
    wanted_in_pass = 0;
    if (in_pass == 0) return;
    const std::size_t first = std::min(in_pass, first_wanted - std::min(first_wanted, done));
    batch.add(*of->sequence, tokens.subspan(done, in_pass), first);
    wanted_in_pass = in_pass - first;
  }
};

/// Number of pages that a sequence needs for `tokens` more.
std::size_t more_pages(const Sequence& sequence, std::size_t tokens) {
  const std::size_t held = sequence.tokens().size();
  return Engine::pages_of(held + tokens) - Engine::pages_of(held);
}

/// Evaluates slices, one turn per pass.
class Evaluator {
 public:
  /// Writes logits to `to`.
  Evaluator(std::span<Evaluation> slices, float* to)
      : engine_(*slices.front().of->engine),
        slices_(slices),
        to_(to),
        cancels_(engine_.cancels()) {}
  ~Evaluator() {
    if (!reserved_) return;
    const EngineObject::Turn turn(engine_);
    release_pages();
  }
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  void run() {
    while (!over()) {
      engine_.check_cancels(cancels_);
      pass();
    }
  }

 private:
  [[nodiscard]] bool over() const {
    return std::ranges::all_of(slices_,
                               [](const Evaluation& s) { return s.done == s.tokens.size(); });
  }
  void pass();
  bool reserve_pages();
  void release_pages();

  EngineObject& engine_;
  const std::span<Evaluation> slices_;
  float* to_;  // end of the logits written
  const std::uint64_t cancels_;
  bool reserved_ = false;  // pages for all tokens
};

/// Reserves pages for all passes, so that no answer begins on them in between. Returns false if
/// others have them.
bool Evaluator::reserve_pages() {
  std::size_t pages = 0;
  for (const Evaluation& slice : slices_) {
    const Sequence& sequence = *slice.of->sequence;
    sequence.check(slice.tokens);
    if (sequence.reserved_pages() == 0) pages += more_pages(sequence, slice.tokens.size());
  }
  if (pages != 0 && engine_.engine.must_wait(pages, 0)) return false;
  reserved_ = true;
  for (Evaluation& slice : slices_) {
    Sequence& sequence = *slice.of->sequence;
    slice.reserved_pages = sequence.reserved_pages() == 0;
    if (slice.reserved_pages)
      sequence.reserve(Engine::pages_of(sequence.tokens().size() + slice.tokens.size()));
  }
  return true;
}

void Evaluator::release_pages() {
  reserved_ = false;
  for (const Evaluation& slice : slices_)
    if (slice.reserved_pages) slice.of->sequence->reserve(0);
}

void Evaluator::pass() {
  const EngineObject::Turn turn(engine_);
  if (!reserved_ && !reserve_pages()) {
    engine_.step();
    return;
  }
  const StopOn stop_on = engine_.stopped_by_cancels();
  Batch batch(engine_.engine);
  std::size_t wanted = 0;
  for (Evaluation& slice : slices_) {
    slice.add_to(batch);
    wanted += slice.wanted_in_pass;
  }
  if (!engine_.forward(batch, cancels_)) return;
  for (Evaluation& slice : slices_) slice.done += slice.in_pass;
  auto slice = slices_.begin();
  std::size_t left = slice->wanted_in_pass;  // rows of this slice
  batch.for_each_row(0, wanted, [&](std::size_t, std::span<const float> logits) {
    engine_.check_cancels(cancels_);
    while (left == 0) left = (++slice)->wanted_in_pass;
    --left;
    Sequence& sequence = *slice->of->sequence;
    if (!all_finite(logits))
      throw engine_.engine.not_finite(sequence, sequence.tokens().size() - 1 - left);
    to_ = std::copy(logits.begin(), logits.end(), to_);
  });
  if (over()) release_pages();
}

/// Checks the caller's array for rows of logits.
void check_rows(const EngineObject& engine, std::size_t rows, const float* logits,
                std::size_t capacity, std::size_t* count) {
  check_output(*engine.model->model, std::nullopt);
  const std::size_t n_vocab = engine.model->model->vocabulary_size();
  if (rows > PTRDIFF_MAX / sizeof(float) / n_vocab)
    throw Failure(CRIA_ERROR_ARGUMENT, "too many logits");
  required(count, "count") = rows * n_vocab;
  if (*count > capacity) throw too_small(std::to_string(*count) + " logits", capacity);
  array(logits, *count, "logits");
}

void check_wanted(std::size_t first, std::size_t n) {
  if (first > n)
    throw Failure(CRIA_ERROR_ARGUMENT, "logits are wanted from a token on that is not there");
}

/// Checks that the sequences are different and of one engine.
std::vector<Evaluation> evaluations(std::span<const cria_slice> slices) {
  std::vector<Evaluation> out;
  std::set<const SequenceObject*> seen;
  for (const cria_slice& slice : slices) {
    check_wanted(slice.first_wanted, slice.n_tokens);
    auto of = object<SequenceObject>(slice.sequence.id);
    if (!seen.insert(of.get()).second)
      throw Failure(CRIA_ERROR_ARGUMENT, "two slices of one sequence");
    if (!out.empty() && out.front().of->engine != of->engine)
      throw Failure(CRIA_ERROR_ARGUMENT, "sequences of different engines");
    out.push_back(
        {std::move(of), array(slice.tokens, slice.n_tokens, "tokens"), slice.first_wanted});
  }
  return out;
}

Pooling pooling_of(const Model& model, std::int32_t number) {
  constexpr std::pair<std::int32_t, Pooling> kPoolings[] = {{CRIA_POOL_MEAN, Pooling::Mean},
                                                            {CRIA_POOL_LAST, Pooling::Last},
                                                            {CRIA_POOL_FIRST, Pooling::First},
                                                            {CRIA_POOL_NONE, Pooling::None},
                                                            {CRIA_POOL_RANK, Pooling::Rank}};
  if (number == CRIA_POOL_DEFAULT) return default_pooling(model);
  for (const auto& [known, pooling] : kPoolings) {
    if (known != number) continue;
    check_output(model, pooling);
    return pooling;
  }
  throw Failure(CRIA_ERROR_ARGUMENT, "unknown pooling");
}

}  // namespace
}  // namespace cria::c_api

using namespace cria::c_api;

cria_status cria_engine_create(cria_model model, const cria_engine_options* options,
                               cria_engine* engine) {
  return call([&] {
    required(engine, "engine").id = 0;
    auto of = object<ModelObject>(model.id);
    engine->id =
        handle(std::make_shared<EngineObject>(std::move(of), engine_options(taken(options))));
  });
}

cria_status cria_engine_free(cria_engine engine) {
  return call([&] { removed<EngineObject>(engine.id)->cancel_all(); });
}

cria_status cria_engine_get_options(cria_engine engine, cria_engine_options* options) {
  return call([&] {
    const auto object_of = object<EngineObject>(engine.id);
    const cria::EngineOptions& of = object_of->engine.options();
    cria_engine_options out{};
    out.n_ctx = of.n_ctx;
    out.n_batch = of.n_batch;
    out.threads = of.threads;
    out.threads_prefill = of.threads_prefill;
    out.sequences = of.sequences;
    out.no_prefix_cache = of.prefix_cache ? 0 : 1;
    out.positions = of.positions;
    out.kv_type = name(of.kv_type).data();  // a string literal
    give(options, out, "options");
  });
}

cria_status cria_engine_cancel(cria_engine engine) {
  return call([&] { object<EngineObject>(engine.id)->cancel_all(); });
}

cria_status cria_engine_step(cria_engine engine, int32_t* busy) {
  return call([&] {
    const auto of = object<EngineObject>(engine.id);
    const EngineObject::Turn turn(*of);
    const bool worked = of->step();
    if (busy != nullptr) *busy = worked ? 1 : 0;
  });
}

cria_status cria_logits(cria_engine engine, const cria_token* tokens, size_t n_tokens, size_t first,
                        float* logits, size_t capacity, size_t* count) {
  return call([&] {
    const auto of = object<EngineObject>(engine.id);
    check_wanted(first, n_tokens);
    const auto all = array(tokens, n_tokens, "tokens");
    check_rows(*of, n_tokens - first, logits, capacity, count);
    Evaluation slice{SequenceObject::for_call(of, n_tokens), all, first};
    Evaluator({&slice, 1}, logits).run();
  });
}

cria_status cria_embed(cria_engine engine, const cria_token* tokens, size_t n_tokens,
                       int32_t pooling, float* embedding, size_t capacity, size_t* count) {
  return call([&] {
    const auto of = object<EngineObject>(engine.id);
    const cria::Model& model = *of->model->model;
    const auto prompt = array(tokens, n_tokens, "tokens");
    cria::AnswerRequest request;
    request.prompt.assign(prompt.begin(), prompt.end());
    request.embedding = pooling_of(model, pooling);
    const std::size_t rows = request.embedding == cria::Pooling::None ? n_tokens : 1,
                      floats = rows * cria::vector_size(model, *request.embedding);
    required(count, "count") = floats;
    if (capacity < floats) throw too_small(std::to_string(floats) + " floats", capacity);
    required(embedding, "embedding");
    const auto writing = std::make_shared<AnswerBuffer>();
    of->begin(std::move(request), writing);
    try {
      of->finish(*writing);
    } catch (...) {  // no handle refers to it
      of->cancel(*writing, false);
      throw;
    }
    const cria::GenerateResult& result = writing->result();
    if (result.embedding.empty()) throw Failure(CRIA_ERROR_CANCELLED, "cancelled");
    give_array(result.embedding, embedding, capacity, count);
  });
}

cria_status cria_rerank(cria_engine engine, const char* query, size_t query_size,
                        const char* const* documents, const size_t* sizes, size_t n,
                        float* scores) {
  return call([&] {
    const auto of = object<EngineObject>(engine.id);
    const cria::Model& model = *of->model->model;
    check_output(model, cria::Pooling::Rank);
    const auto asked = cria::c_api::text(query, query_size, "query");
    const auto texts = array(documents, n, "documents");
    const auto bytes = array(sizes, n, "sizes");
    array(scores, n, "scores");
    std::vector<std::shared_ptr<AnswerBuffer>> all;
    try {
      for (std::size_t i = 0; i < n; ++i) {
        cria::AnswerRequest request;
        request.prompt =
            pair_tokens(model, asked, cria::c_api::text(texts[i], bytes[i], "document"));
        request.embedding = cria::Pooling::Rank;
        auto writing = std::make_shared<AnswerBuffer>();
        of->begin(std::move(request), writing);
        all.push_back(std::move(writing));
      }
      for (std::size_t i = 0; i < n; ++i) {
        of->finish(*all[i]);
        const std::vector<float>& outputs = all[i]->result().embedding;
        if (outputs.empty()) throw Failure(CRIA_ERROR_CANCELLED, "cancelled");
        scores[i] = cria::relevance(model, outputs);
      }
    } catch (...) {  // no handles refer to them
      for (const auto& writing : all) of->cancel(*writing, false);
      throw;
    }
  });
}

cria_status cria_sequence_create(cria_engine engine, uint64_t scope, cria_sequence* sequence) {
  return call([&] {
    required(sequence, "sequence").id = 0;
    sequence->id = handle(std::make_shared<SequenceObject>(object<EngineObject>(engine.id), scope));
  });
}

cria_status cria_sequence_free(cria_sequence sequence) {
  return call([&] { removed<SequenceObject>(sequence.id); });
}

cria_status cria_sequence_fork(cria_sequence sequence, cria_sequence* fork) {
  return call([&] {
    required(fork, "fork").id = 0;
    const auto of = object<SequenceObject>(sequence.id);
    std::shared_ptr<SequenceObject> forked;
    {
      const EngineObject::Turn turn(*of->engine);
      cria::Sequence same = of->sequence->fork();
      forked = std::make_shared<SequenceObject>(of->engine, std::move(same));
    }
    fork->id = handle(std::move(forked));
  });
}

cria_status cria_sequence_truncate(cria_sequence sequence, size_t n, size_t* left) {
  return call([&] {
    const auto of = object<SequenceObject>(sequence.id);
    const EngineObject::Turn turn(*of->engine);
    const std::size_t kept = of->sequence->truncate(n);
    if (left != nullptr) *left = kept;
  });
}

cria_status cria_sequence_reuse(cria_sequence sequence, const cria_token* tokens, size_t n_tokens,
                                size_t* left) {
  return call([&] {
    const auto of = object<SequenceObject>(sequence.id);
    const auto wanted = array(tokens, n_tokens, "tokens");
    const auto pages = [&] {
      const std::size_t held = of->sequence->tokens().size();
      return more_pages(*of->sequence, std::max(held, of->sequence->known_prefix(wanted)) - held);
    };
    of->engine->with_free(0, pages, [&] {
      const std::size_t known = of->sequence->reuse(wanted);
      if (left != nullptr) *left = known;
    });
  });
}

cria_status cria_sequence_tokens(cria_sequence sequence, cria_token* tokens, size_t capacity,
                                 size_t* count) {
  return call([&] {
    const auto of = object<SequenceObject>(sequence.id);
    const EngineObject::Turn turn(*of->engine);
    give_array(of->sequence->tokens(), tokens, capacity, count);
  });
}

cria_status cria_forward(const cria_slice* slices, size_t n_slices, float* logits, size_t capacity,
                         size_t* count) {
  return call([&] {
    std::vector<Evaluation> all = evaluations(array(slices, n_slices, "slices"));
    if (all.empty()) throw Failure(CRIA_ERROR_ARGUMENT, "no slices");
    std::size_t rows = 0;
    for (const Evaluation& slice : all) rows += slice.tokens.size() - slice.first_wanted;
    check_rows(*all.front().of->engine, rows, logits, capacity, count);
    Evaluator(all, logits).run();
  });
}
