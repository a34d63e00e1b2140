// Calls with engines, answers, sequences and scores.
#include <cmath>
#include <thread>

#include "tests/fuzz/c_api_program.h"

namespace cria::fuzz {

void CProgram::engine_create() {
  if (live_[kKindOf<cria_engine>].size() >= kMaxLive) return;
  constexpr std::uint32_t kContexts[] = {0, 64, 16, 1, 33, 1U << 25},
                          kSizes[] = {0, 1, 3, 16, 4096, UINT32_MAX};
  constexpr const char* kKvTypes[] = {nullptr, "f16", "f32", "q8_0", "q4_0", ""};
  const auto model = pick<cria_model>();
  cria_engine engine{};
  cria_engine* const to = out(engine);
  cria_engine_options options = CRIA_STRUCT(cria_engine_options);
  options.n_ctx = kContexts[bytes_.between(0, 5)];
  options.n_batch = kSizes[bytes_.between(0, 5)];
  options.sequences = kSizes[bytes_.between(0, 3)];
  options.threads = bytes_.number<std::uint8_t>() < 240 ? 1 : 2;  // two are slow on a busy machine
  const auto more = bytes_.number<std::uint8_t>();
  if (more >= 240) options.sequences = options.threads_prefill = 1025;
  options.no_prefix_cache = more & 1;
  options.positions = (more & 2) != 0 ? 128 : (more & 4) != 0 ? std::uint64_t{1} << more % 64U : 0;
  if (options.positions > (1U << 16) && options.positions < (1U << 30))
    options.positions = 0;  // uses much memory and tests nothing new
  options.kv_type = kKvTypes[bytes_.between(0, 5)];
  if (bytes_.flag()) options.draft = pick<cria_model>(true);
  const auto given = sized(options, true);
  wrong_ = wrong_ || (stale_inside_ && given.whole());
  made(cria_engine_create(model, given.get(), to), engine);
}

void CProgram::engine_options() {
  const auto engine = pick<cria_engine>();
  const auto options = sized(CRIA_STRUCT(cria_engine_options));
  check(cria_engine_get_options(engine, options.get()));
  if (wrong_ || !options.whole()) return;
  require(options.get()->n_ctx != 0 && options.get()->sequences != 0 &&
              options.get()->kv_type[0] != '\0',
          "a default is not filled in");
}

void CProgram::engine_step() {
  const auto engine = pick<cria_engine>();
  std::int32_t busy = 2;
  check(cria_engine_step(engine, bytes_.flag() ? nullptr : &busy));
}

void CProgram::answer_begin() {
  if (live_[kKindOf<cria_answer>].size() >= kMaxLive) return;
  constexpr std::int64_t kMost[] = {6, 0, 1, 30, -1, INT64_MAX};
  constexpr std::uint32_t kTop[] = {0, 2, 40, 41, UINT32_MAX};
  const auto engine = pick<cria_engine>();
  cria_answer answer{};
  cria_answer* const to = out(answer);
  cria_request request = CRIA_STRUCT(cria_request);
  const auto given = sized(request);
  request.sampler = pick<cria_sampler>(true);
  request.constraint = bytes_.flag() ? pick<cria_constraint>(true) : cria_constraint{};
  request.max_tokens = kMost[bytes_.between(0, 5)];
  const auto flags = bytes_.number<std::uint8_t>();
  const char* const stop[] = {text_argument(bytes_), "w9"};
  request.ignore_eos = flags & 1;
  request.speculation = (flags >> 1 & 1) | (flags >> 3 & 2);
  wrong_ = wrong_ || (request.speculation == 3 && given.whole());
  request.logprobs = flags >> 2 & 1;
  request.top_logprobs = kTop[flags >> 5 & 3];
  request.scope = flags >> 3 & 1;
  request.stop = stop;
  request.n_stop = flags >= 128 ? 2 : 0;
  const auto kind = bytes_.number<std::uint8_t>();
  const auto messages = kind % 4 == 0 || kind >= 240 ? conversation() : std::vector<cria_message>{};
  const auto text = kind % 4 == 1 ? sized_text_argument(bytes_) : ArrayArgument<char>{};
  const auto tokens =
      kind % 4 == 2 || kind >= 240 ? token_argument(bytes_) : ArrayArgument<cria_token>{};
  if (!messages.empty()) request.messages = messages.data();
  request.n_messages = messages.size();
  request.variables = kind >= 128 ? variables_argument(bytes_) : nullptr;
  request.text = text.data;
  request.text_size = text.n;
  request.tokens = tokens.data;
  request.n_tokens = tokens.n;
  if (given.right()) {  // only the members of that version
    const std::size_t size = given.get()->size;
    std::memcpy(static_cast<void*>(given.get()), &request, std::min(size, sizeof request));
    given.get()->size = size;
  }
  wrong_ = wrong_ || (stale_inside_ && given.whole());
  made(cria_answer_begin(engine, given.get(), to), answer);
}

void CProgram::read_piece(cria_status (*read)(cria_answer, cria_piece*)) {
  const auto answer = pick<cria_answer>();
  const auto piece = sized(CRIA_STRUCT(cria_piece));
  const cria_status status = read(answer, piece.get());
  check(status);
  require(status != CRIA_AGAIN || read == cria_answer_poll,
          "a piece that was waited for is not there");
  if (status != CRIA_OK || !piece.whole()) return;
  const cria_piece& told = *piece.get();
  require(told.text_size > 0 && told.text[told.text_size] == '\0',
          "a piece without text, or without its end");
}

void CProgram::answer_result() {
  const auto answer = pick<cria_answer>();
  const auto result = sized(CRIA_STRUCT(cria_result));
  const cria_status status = cria_answer_result(answer, result.get());
  check(status);
  if (status != CRIA_OK || !result.whole()) return;
  const cria_result& told = *result.get();
  require(told.text[told.text_size] == '\0' && told.thinking[told.thinking_size] == '\0',
          "a text without its end");
  require(told.stop_reason >= CRIA_STOP_END && told.stop_reason <= CRIA_STOP_INTERRUPTED,
          "no reason");
  for (std::size_t i = 0; i < told.n_tokens; ++i)
    require(told.tokens[i] >= 0 && told.tokens[i] < 40, "invalid token");
  for (std::size_t i = 0; i < told.n_logprobs; ++i)
    require(told.logprobs[i].logprob <= 0, "more than certain");
  for (std::size_t i = 0; i < told.n_logprobs * told.n_top; ++i)
    require(told.top_logprobs[i].token < 40, "invalid token");
  told_ += told.n_tokens > 0 ? 1 : 0;
}

/// One thread waits for an answer while another steps, cancels, or frees it or its engine.
void CProgram::two_threads() {
  const auto answer = pick<cria_answer>();
  if (stale_) return;
  cria_status waited = CRIA_OK;
  std::thread waits([&] {
    cria_result result = CRIA_STRUCT(cria_result);
    waited = cria_answer_result(answer, &result);
  });
  const std::uint32_t what = bytes_.between(0, 5);
  const std::uint64_t newest = nth(live_[kKindOf<cria_engine>], 0);
  if (what == 0) cria_engine_step({newest}, nullptr);
  if (what == 1) cria_engine_cancel({newest});
  if (what == 2) cria_answer_cancel(answer);
  if (what == 3) release(cria_answer_free);
  if (what == 4) release(cria_engine_free);
  if (what == 5) read_piece(cria_answer_next);
  waits.join();
  require(waited != CRIA_ERROR_INTERNAL && waited != CRIA_ERROR_ARGUMENT,
          "an answer that was waited for failed");
}

void CProgram::logits() {
  const auto engine = pick<cria_engine>();
  const auto tokens = checked(token_argument(bytes_));
  const std::size_t first = bytes_.between(0, 3) == 3 ? SIZE_MAX : bytes_.between(0, 12);
  const auto logits = filled<float>([&](auto* to, auto room, auto* count) {
    return cria_logits(engine, tokens.data, tokens.n, first, to, room, count);
  });
  require(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }), "logit is NaN");
}

void CProgram::embed() {
  const auto engine = pick<cria_engine>();
  const auto tokens = checked(token_argument(bytes_));
  const auto pooling = static_cast<std::int32_t>(bytes_.between(0, 6));
  const auto embedding = filled<float>([&](auto* to, auto room, auto* count) {
    return cria_embed(engine, tokens.data, tokens.n, pooling, to, room, count);
  });
  const std::size_t rows = pooling == CRIA_POOL_NONE ? tokens.n : 1;
  require(embedding.empty() || (embedding.size() == 32 * rows && pooling < CRIA_POOL_RANK),
          "wrong size of an embedding");
}

void CProgram::score() {
  const auto engine = pick<cria_engine>();
  const auto one = checked(token_argument(bytes_)), other = checked(token_argument(bytes_));
  const cria_scored texts[] = {{one.data, one.n, 1U + bytes_.between(0, 3)},
                               {other.data, other.n, bytes_.between(0, 3)}};
  const std::size_t n = bytes_.between(0, 2);
  if (n < 2) wrong_ = stale_ || (n == 1 && !one.right);
  const auto scores = filled<cria_score>([&](auto* to, auto room, auto* count) {
    return cria_score_tokens(engine, n == 0 ? nullptr : texts, n, 0, to, room, count);
  });
  for (const cria_score& score : scores)
    require(score.logprob <= 0 && score.likeliest >= 0 && score.likeliest < 40, "invalid score");
}

void CProgram::perplexity() {
  constexpr std::uint32_t kSizes[] = {0, 8, 2, 1, 64, UINT32_MAX};
  const auto engine = pick<cria_engine>();
  cria_perplexity_options options = CRIA_STRUCT(cria_perplexity_options);
  options.window = kSizes[bytes_.between(0, 5)];
  options.stride = kSizes[bytes_.between(0, 5)];
  options.max_windows = bytes_.between(0, 3);
  const auto given = sized(options, true);
  const auto result = sized(CRIA_STRUCT(cria_perplexity_result));
  const auto text = checked(sized_text_argument(bytes_));
  const cria_status status = cria_perplexity(engine, text.data, text.n, given.get(), result.get());
  check(status);
  if (status == CRIA_OK && result.whole())
    require(result.get()->perplexity >= 1 && result.get()->tokens > 0, "invalid perplexity");
}

void CProgram::sequence_create() {
  if (live_[kKindOf<cria_sequence>].size() >= kMaxLive) return;
  const auto engine = pick<cria_engine>();
  cria_sequence sequence{};
  cria_sequence* const to = out(sequence);
  made(cria_sequence_create(engine, bytes_.between(0, 1), to), sequence);
}

void CProgram::sequence_fork() {
  if (live_[kKindOf<cria_sequence>].size() >= kMaxLive) return;
  const auto sequence = pick<cria_sequence>();
  cria_sequence fork{};
  const cria_status status = cria_sequence_fork(sequence, out(fork));
  made(status, fork);
}

void CProgram::sequence_truncate() {
  const auto sequence = pick<cria_sequence>();
  const std::size_t n = bytes_.flag() ? SIZE_MAX - bytes_.between(0, 64) : bytes_.between(0, 64);
  std::size_t left = 0;
  check(cria_sequence_truncate(sequence, n, bytes_.flag() ? nullptr : &left));
  require(left <= n, "truncation kept too much");
}

void CProgram::sequence_reuse() {
  const auto sequence = pick<cria_sequence>();
  const auto tokens = checked(token_argument(bytes_));
  std::size_t left = 0;
  check(cria_sequence_reuse(sequence, tokens.data, tokens.n, bytes_.flag() ? nullptr : &left));
  require(left <= tokens.n, "more is known than was asked for");
}

void CProgram::sequence_tokens() {
  const auto sequence = pick<cria_sequence>();
  filled<cria_token>([&](auto* to, auto room, auto* count) {
    return cria_sequence_tokens(sequence, to, room, count);
  });
}

void CProgram::forward() {
  std::vector<ArrayArgument<cria_token>> tokens;
  std::vector<cria_slice> slices(1 + bytes_.between(0, 2));
  for (cria_slice& slice : slices) {
    slice.sequence = pick<cria_sequence>();
    slice.first_wanted = bytes_.between(0, 4);
    tokens.push_back(checked(token_argument(bytes_)));
    slice.tokens = tokens.back().data;  // keeps its address when its owner is moved
    slice.n_tokens = tokens.back().n;
  }
  slices.shrink_to_fit();
  const auto logits = filled<float>([&](auto* to, auto room, auto* count) {
    return cria_forward(slices.data(), slices.size(), to, room, count);
  });
  require(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }), "logit is NaN");
}

}  // namespace cria::fuzz
