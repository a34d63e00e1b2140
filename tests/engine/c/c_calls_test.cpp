// Calls of the C interface in any order and from several threads: waiting, cancellation, errors.
#include <atomic>
#include <thread>

#include "tests/engine/c/c_api.h"
#include "tests/engine/demo.h"
#include "tests/engine/random.h"

namespace cria::test {
namespace {

TEST_F(CApi, CancelledAnswersEndInterrupted) {
  ASSERT_EQ(cria_sampler_set(sampler.handle, "temperature", 0), CRIA_OK);
  cria_request request = chat();
  request.max_tokens = 0;
  request.ignore_eos = 1;
  const cria_answer by_itself = begin(request), by_engine = begin(request),
                    waiting = begin(request), fourth = begin(request);
  cria_piece piece = CRIA_STRUCT(cria_piece);
  ASSERT_EQ(cria_answer_next(by_itself, &piece), CRIA_OK);
  EXPECT_EQ(cria_answer_cancel(by_itself), CRIA_OK);
  cria_result result = CRIA_STRUCT(cria_result);
  ASSERT_EQ(cria_answer_result(by_itself, &result), CRIA_OK);
  EXPECT_EQ(result.stop_reason, CRIA_STOP_INTERRUPTED);
  EXPECT_LT(result.n_tokens, 20U);
  EXPECT_EQ(cria_answer_free(waiting), CRIA_OK);
  EXPECT_EQ(cria_engine_cancel(engine.handle), CRIA_OK);
  for (const cria_answer answer : {by_engine, fourth}) {
    ASSERT_EQ(cria_answer_result(answer, &result), CRIA_OK);
    EXPECT_EQ(result.stop_reason, CRIA_STOP_INTERRUPTED);
  }
  // The engine serves further calls, and its sequences are free again.
  cria_sequence sequences[3];
  for (cria_sequence& sequence : sequences)
    ASSERT_EQ(cria_sequence_create(engine.handle, 0, &sequence), CRIA_OK) << cria_last_error();
  for (const cria_sequence sequence : sequences) EXPECT_EQ(cria_sequence_free(sequence), CRIA_OK);
  for (const cria_answer answer : {by_itself, by_engine, fourth})
    EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
  SamplerOptions greedy_options;
  greedy_options.temperature = 0;
  const cria_answer after = begin(chat());
  EXPECT_EQ(read_all(after).first, cpp_answer(greedy_options).text);
  EXPECT_EQ(cria_answer_free(after), CRIA_OK);
}

// A cancelled answer ends at once if no thread is computing. No step is needed, even while other
// answers are active.
TEST_F(CApi, CancelledAnswersNeedNoStep) {
  cria_request request = chat();
  request.max_tokens = 0;
  request.ignore_eos = 1;
  std::vector<cria_answer> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(begin(request));
  ASSERT_EQ(cria_engine_step(engine.handle, nullptr), CRIA_OK);
  std::vector<cria_sequence> sequences(3);
  EXPECT_EQ(cria_sequence_create(engine.handle, 0, &sequences[0]), CRIA_ERROR_DATA);
  EXPECT_EQ(cria_answer_free(answers[0]), CRIA_OK);
  EXPECT_EQ(cria_sequence_create(engine.handle, 0, &sequences[0]), CRIA_OK) << cria_last_error();
  EXPECT_EQ(cria_answer_cancel(answers[1]), CRIA_OK);
  EXPECT_EQ(cria_sequence_create(engine.handle, 0, &sequences[1]), CRIA_OK) << cria_last_error();
  EXPECT_EQ(cria_engine_cancel(engine.handle), CRIA_OK);
  EXPECT_EQ(cria_sequence_create(engine.handle, 0, &sequences[2]), CRIA_OK) << cria_last_error();
  for (const cria_sequence sequence : sequences) EXPECT_EQ(cria_sequence_free(sequence), CRIA_OK);
  answers[0] = begin(request);
  ASSERT_EQ(cria_engine_step(engine.handle, nullptr), CRIA_OK);
  answers.push_back(begin(request));  // has not been taken yet
  EXPECT_EQ(cria_engine_free(std::exchange(engine.handle, {})), CRIA_OK);
  for (const cria_answer answer : answers) {
    cria_piece piece = CRIA_STRUCT(cria_piece);
    cria_status status = CRIA_OK;
    while (status == CRIA_OK) status = cria_answer_poll(answer, &piece);
    EXPECT_EQ(status, CRIA_END);
    EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
  }
}

TEST_F(CApi, PollingAndStepsGiveTheSameText) {
  ASSERT_EQ(cria_sampler_set(sampler.handle, "temperature", 0), CRIA_OK);
  const cria_answer polled = begin(chat()), pulled = begin(chat());
  cria_piece piece = CRIA_STRUCT(cria_piece);
  std::string text;
  std::int32_t busy = 1;
  for (cria_status status = CRIA_AGAIN; status >= 0 && status != CRIA_END;) {
    status = cria_answer_poll(polled, &piece);
    if (status == CRIA_OK) text.append(piece.text, piece.text_size);
    if (status == CRIA_AGAIN && cria_engine_step(engine.handle, &busy) != CRIA_OK) break;
  }
  EXPECT_EQ(read_all(pulled).first, text);
  EXPECT_NE(text.find("Paris"), std::string::npos);
  ASSERT_EQ(cria_engine_step(engine.handle, &busy), CRIA_OK);
  EXPECT_EQ(busy, 0);
  for (const cria_answer answer : {polled, pulled}) EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
}

TEST_F(CApi, ThreadsShareAnEngine) {
  std::vector<std::string> expected, got(3);
  for (std::uint64_t seed = 0; seed < got.size(); ++seed) {
    SamplerOptions options;
    options.temperature = 1;
    options.seed = seed;
    expected.push_back(cpp_answer(options).text);
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([this, i, &got] {
      Owned<cria_sampler> own(cria_sampler_free);
      EXPECT_EQ(cria_sampler_create(c_demo(), &own.handle), CRIA_OK);
      EXPECT_EQ(cria_sampler_set(own.handle, "temperature", 1), CRIA_OK);
      EXPECT_EQ(cria_sampler_set_seed(own.handle, i), CRIA_OK);
      cria_request request = chat();
      request.sampler = own.handle;
      const cria_answer answer = begin(request);
      got[i] = read_all(answer).first;
      EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, expected);
}

// An answer has the engine's only sequence; what is asked for meanwhile waits for its end, and
// steps for it.
TEST_F(CApi, CallsWaitForTheSequenceOfAnAnswer) {
  cria_engine_options options = CRIA_STRUCT(cria_engine_options);
  options.n_ctx = 256;
  options.n_batch = 32;
  options.kv_type = "f32";
  Owned<cria_engine> own(cria_engine_free);
  ASSERT_EQ(cria_engine_create(c_demo(), &options, &own.handle), CRIA_OK);
  ASSERT_EQ(cria_sampler_set(sampler.handle, "temperature", 0), CRIA_OK);
  SamplerOptions greedy_options;
  greedy_options.temperature = 0;
  const std::string expected = cpp_answer(greedy_options).text;
  const std::vector<TokenId>& tokens = demo_tokens();
  const std::size_t n_vocab = demo_model().vocabulary_size();
  const auto logits = [&] {
    std::vector<float> row(n_vocab);
    std::size_t count = 0;
    EXPECT_EQ(cria_logits(own.handle, tokens.data(), 64, 63, row.data(), n_vocab, &count), CRIA_OK)
        << cria_last_error();
    return row;
  };
  const auto score = [&] {
    const cria_scored text{tokens.data(), 64, 63};
    cria_score one{};
    std::size_t count = 0;
    EXPECT_EQ(cria_score_tokens(own.handle, &text, 1, 0, &one, 1, &count), CRIA_OK)
        << cria_last_error();
    return one.logprob;
  };
  const std::vector<float> logits_alone = logits();
  const double score_alone = score();
  for (int i = 0; i < 4; ++i) {
    cria_answer answer{};
    const cria_request request = chat();
    ASSERT_EQ(cria_answer_begin(own.handle, &request, &answer), CRIA_OK);
    cria_piece piece = CRIA_STRUCT(cria_piece);
    ASSERT_EQ(cria_answer_next(answer, &piece), CRIA_OK);
    std::string text(piece.text, piece.text_size);
    if (i % 2 == 0)
      EXPECT_TRUE(same_bytes(logits(), logits_alone));
    else
      EXPECT_EQ(score(), score_alone);
    EXPECT_EQ(cria_answer_poll(answer, &piece), CRIA_OK) << "it has been written meanwhile";
    EXPECT_EQ(text.append(piece.text, piece.text_size), expected);
    EXPECT_EQ(cria_answer_poll(answer, &piece), CRIA_END);
    EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
  }
}

// Sequences that grow or enter the prefix cache do not take positions reserved for answers. They
// wait.
TEST_F(CApi, SequencesLeaveAnswersTheirPositions) {
  const std::vector<TokenId>& tokens = demo_tokens();
  ASSERT_EQ(tokens.size(), 64U);
  const std::size_t n_vocab = demo_model().vocabulary_size();
  std::size_t count = 0, left = 0;
  cria_request request = chat();
  ASSERT_EQ(cria_sampler_set(sampler.handle, "temperature", 0), CRIA_OK);
  request.ignore_eos = 1;
  request.max_tokens = 90;  // two pages with its prompt
  const cria_answer alone = begin(request);
  const std::string expected = read_all(alone).first;
  EXPECT_EQ(cria_answer_free(alone), CRIA_OK);
  std::vector<float> logits(n_vocab), expected_logits(n_vocab);
  ASSERT_EQ(
      cria_logits(engine.handle, tokens.data(), 64, 63, expected_logits.data(), n_vocab, &count),
      CRIA_OK);
  cria_engine_options options = CRIA_STRUCT(cria_engine_options);
  options.n_ctx = 128;
  options.sequences = 2;
  options.positions = 128;
  options.kv_type = "f32";
  for (const bool kept : {false, true}) {
    Owned<cria_engine> own(cria_engine_free);
    ASSERT_EQ(cria_engine_create(c_demo(), &options, &own.handle), CRIA_OK) << cria_last_error();
    Owned<cria_sequence> sequence(cria_sequence_free);
    const auto read = [&] {
      const cria_slice slice{sequence.handle, tokens.data(), 64, 63};
      EXPECT_EQ(cria_forward(&slice, 1, logits.data(), n_vocab, &count), CRIA_OK)
          << cria_last_error();
    };
    if (kept) {
      ASSERT_EQ(cria_sequence_create(own.handle, 0, &sequence.handle), CRIA_OK);
      read();
      EXPECT_EQ(cria_sequence_free(sequence.handle), CRIA_OK);
    }
    ASSERT_EQ(cria_sequence_create(own.handle, 0, &sequence.handle), CRIA_OK);
    cria_answer answer{};
    ASSERT_EQ(cria_answer_begin(own.handle, &request, &answer), CRIA_OK);
    ASSERT_EQ(cria_engine_step(own.handle, nullptr), CRIA_OK);
    if (kept) {
      ASSERT_EQ(cria_sequence_reuse(sequence.handle, tokens.data(), 64, &left), CRIA_OK)
          << cria_last_error();
    } else {
      read();
      EXPECT_TRUE(same_bytes(logits, expected_logits));
    }
    EXPECT_EQ(read_all(answer), std::pair(expected, cria_status{CRIA_END})) << cria_last_error();
    EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
    // A slice with an invalid token is rejected before any of it is evaluated.
    const TokenId bad[] = {1, -1};
    const cria_slice slice{sequence.handle, bad, 2, 2};
    EXPECT_EQ(cria_forward(&slice, 1, nullptr, 0, &count), CRIA_ERROR_DATA);
  }
}

TEST_F(CApi, HandlesMayBeFreedInAnyOrder) {
  Owned<cria_model> model(cria_model_free);
  ASSERT_EQ(cria_model_load(CRIA_DATA "/cria-demo-Q8_0.gguf", nullptr, &model.handle), CRIA_OK);
  Owned<cria_engine> own(cria_engine_free);
  cria_engine_options options = CRIA_STRUCT(cria_engine_options);
  options.n_ctx = 128;
  ASSERT_EQ(cria_engine_create(model.handle, &options, &own.handle), CRIA_OK);
  ASSERT_EQ(cria_model_free(model.handle), CRIA_OK);
  EXPECT_EQ(cria_model_free(std::exchange(model.handle, {})), CRIA_ERROR_HANDLE);
  cria_answer answer{};
  const cria_request request = chat();
  ASSERT_EQ(cria_answer_begin(own.handle, &request, &answer), CRIA_OK);
  ASSERT_EQ(cria_engine_free(own.handle), CRIA_OK);
  EXPECT_EQ(cria_engine_free(std::exchange(own.handle, {})), CRIA_ERROR_HANDLE);
  cria_result result = CRIA_STRUCT(cria_result);
  ASSERT_EQ(cria_answer_result(answer, &result), CRIA_OK) << cria_last_error();
  EXPECT_EQ(result.stop_reason, CRIA_STOP_INTERRUPTED);
  EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
  EXPECT_EQ(cria_answer_free(answer), CRIA_ERROR_HANDLE);
}

// A handle that one thread frees while others use it: each call is one before or after that, and
// reads nothing that is gone.
TEST_F(CApi, HandlesMayBeFreedWhileTheyAreUsed) {
  std::atomic<std::uint64_t> model = 0, own = 0;
  std::atomic<bool> over = false;
  const auto use = [&] {
    const auto expect_done = [](cria_status status) {
      EXPECT_TRUE(status == CRIA_OK || status == CRIA_ERROR_HANDLE) << cria_last_error();
    };
    while (!over) {
      cria_model_info info = CRIA_STRUCT(cria_model_info);
      expect_done(cria_model_get_info({model}, &info));
      cria_engine_options options = CRIA_STRUCT(cria_engine_options);
      expect_done(cria_engine_get_options({own}, &options));
      Owned<cria_sampler> of_model(cria_sampler_free);
      expect_done(cria_sampler_create({model}, &of_model.handle));
    }
  };
  std::thread threads[] = {std::thread(use), std::thread(use)};
  cria_engine_options options = CRIA_STRUCT(cria_engine_options);
  options.n_ctx = 64;
  options.n_batch = 1;
  options.threads = 1;
  for (int i = 0; i < 60; ++i) {
    cria_model next{};
    EXPECT_EQ(cria_model_load(CRIA_DATA "/cria-demo-Q8_0.gguf", nullptr, &next), CRIA_OK);
    model = next.id;
    cria_engine on_it{};
    EXPECT_EQ(cria_engine_create(next, &options, &on_it), CRIA_OK) << cria_last_error();
    own = on_it.id;
    std::this_thread::yield();
    EXPECT_EQ(cria_engine_free(on_it), CRIA_OK);
    EXPECT_EQ(cria_model_free(next), CRIA_OK);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CApi, RefusesWrongArguments) {
  cria_model model{};
  EXPECT_EQ(cria_model_load("no/such/file.gguf", nullptr, &model), CRIA_ERROR_DATA);
  EXPECT_NE(std::string(cria_last_error()).find("no/such/file.gguf"), std::string::npos);
  EXPECT_EQ(cria_model_load(nullptr, nullptr, &model), CRIA_ERROR_ARGUMENT);
  EXPECT_EQ(cria_model_load("x", nullptr, nullptr), CRIA_ERROR_ARGUMENT);
  EXPECT_EQ(cria_sampler_set(sampler.handle, "heat", 1), CRIA_ERROR_ARGUMENT);
  EXPECT_EQ(cria_sampler_set(sampler.handle, "temperature", -1), CRIA_ERROR_DATA);
  EXPECT_EQ(cria_sampler_set(sampler.handle, "top_k", 1.5), CRIA_ERROR_DATA);
  EXPECT_EQ(cria_sampler_set(sampler.handle, "top_k", std::numeric_limits<double>::quiet_NaN()),
            CRIA_ERROR_DATA);
  EXPECT_EQ(cria_sampler_set_steps(sampler.handle, "top_k;top_k"), CRIA_ERROR_DATA);
  EXPECT_EQ(cria_sampler_set_bias(sampler.handle, 1 << 20, 1), CRIA_ERROR_DATA);
  EXPECT_EQ(cria_sampler_set({engine.handle.id}, "top_k", 1), CRIA_ERROR_HANDLE);
  const TokenId bad = -1;
  std::size_t count = 0;
  std::vector<float> logits(demo_model().vocabulary_size());
  EXPECT_EQ(cria_logits(engine.handle, &bad, 1, 0, logits.data(), logits.size(), &count),
            CRIA_ERROR_DATA);
  EXPECT_EQ(cria_logits(engine.handle, &bad, 1, 2, logits.data(), logits.size(), &count),
            CRIA_ERROR_ARGUMENT);
  EXPECT_EQ(cria_logits(engine.handle, nullptr, 1, 0, logits.data(), logits.size(), &count),
            CRIA_ERROR_ARGUMENT);
  cria_answer answer{};
  cria_request request = chat();
  request.text = "";
  EXPECT_EQ(cria_answer_begin(engine.handle, &request, &answer), CRIA_ERROR_ARGUMENT);
  const std::string endless(5000, 'x');
  const cria_message message{"user", endless.c_str(), nullptr};
  request = chat();
  request.messages = &message;
  EXPECT_EQ(cria_answer_begin(engine.handle, &request, &answer), CRIA_ERROR_CONTEXT);
  request.n_messages = 0;
  EXPECT_EQ(cria_answer_begin(engine.handle, &request, &answer), CRIA_ERROR_ARGUMENT);
  request = chat();
  request.speculation = 4;
  EXPECT_EQ(cria_answer_begin(engine.handle, &request, &answer), CRIA_ERROR_ARGUMENT);
  request = CRIA_STRUCT(cria_request);
  request.tokens = &bad;
  request.n_tokens = 1;
  answer = begin(request);
  EXPECT_EQ(read_all(answer).second, CRIA_ERROR_DATA);
  EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
}

// A program that was compiled with a header of another version.
TEST_F(CApi, StructsMayGrow) {
  struct Newer {
    cria_engine_options known;
    std::uint64_t added[2];
  } newer = {CRIA_STRUCT(cria_engine_options), {}};
  newer.known.size = sizeof(Newer);
  newer.known.n_ctx = 128;
  Owned<cria_engine> own(cria_engine_free);
  ASSERT_EQ(cria_engine_create(c_demo(), &newer.known, &own.handle), CRIA_OK) << cria_last_error();
  newer.added[1] = 77;
  ASSERT_EQ(cria_engine_get_options(own.handle, &newer.known), CRIA_OK);
  EXPECT_EQ(newer.known.n_ctx, 128U);
  EXPECT_STREQ(newer.known.kv_type, "f16");
  EXPECT_EQ(newer.added[1], 0U);
  newer.known.kv_type = "f16";
  newer.added[1] = 1;
  cria_engine none{};
  EXPECT_EQ(cria_engine_create(c_demo(), &newer.known, &none), CRIA_ERROR_ARGUMENT);
  cria_engine_options older = CRIA_STRUCT(cria_engine_options);
  older.size = offsetof(cria_engine_options, threads);
  older.threads = 99;
  ASSERT_EQ(cria_engine_get_options(own.handle, &older), CRIA_OK);
  EXPECT_EQ(older.n_ctx, 128U);
  EXPECT_EQ(older.threads, 99U);  // not its own
  for (const std::size_t no_size : {std::size_t{0}, offsetof(cria_engine_options, n_batch)}) {
    older.size = no_size;
    EXPECT_EQ(cria_engine_get_options(own.handle, &older), CRIA_ERROR_ARGUMENT) << no_size;
  }
}

// Calls in no order, with handles that are valid, freed, of another kind or no handles at all.
TEST_F(CApi, AnyOrderOfCallsIsSafe) {
  Random random(3);
  std::vector<std::uint64_t> ids = {0, ~std::uint64_t{0}, c_demo().id, engine.handle.id,
                                    sampler.handle.id};
  const auto any = [&] { return ids[random.next() % ids.size()]; };
  const auto keep = [&](std::uint64_t id) {
    if (ids.size() < 40)
      ids.push_back(id);
    else
      ids[5 + random.next() % 35] = id;
  };
  std::vector<float> floats(70000);
  std::vector<cria_token> tokens = {1, 3, 321, 15, 4048, -1};
  std::size_t count = 0;
  for (int i = 0; i < 600; ++i) {
    cria_answer answer{};
    cria_sequence sequence{};
    cria_piece piece = CRIA_STRUCT(cria_piece);
    cria_result result = CRIA_STRUCT(cria_result);
    cria_request request = chat();
    request.max_tokens = static_cast<std::int64_t>(1 + random.next() % 3);
    request.sampler = {any()};
    const cria_slice slices[] = {{{any()}, tokens.data(), random.next() % 7, random.next() % 4},
                                 {{any()}, tokens.data(), 2, 1}};
    switch (random.next() % 16) {
      case 0:
        cria_answer_begin({any()}, &request, &answer);
        break;
      case 1:
        cria_answer_next({any()}, &piece);
        break;
      case 2:
        cria_answer_poll({any()}, &piece);
        break;
      case 3:
        cria_answer_result({any()}, &result);
        break;
      case 4:
        cria_answer_cancel({any()});
        break;
      case 5:
        cria_answer_free({any()});
        break;
      case 6:
      case 7:
        cria_sequence_create({any()}, random.next() % 2, &sequence);
        break;
      case 8:
        cria_sequence_fork({any()}, &sequence);
        break;
      case 9:
        cria_sequence_truncate({any()}, random.next() % 9, nullptr);
        break;
      case 10:
        cria_sequence_free({any()});
        break;
      case 11:
        cria_sequence_reuse({any()}, tokens.data(), 5, nullptr);
        break;
      case 12:
        cria_engine_step({any()}, nullptr);
        break;
      case 13:
        cria_engine_cancel({any()});
        break;
      case 14:
        cria_logits({any()}, tokens.data(), random.next() % 7, random.next() % 7, floats.data(),
                    floats.size(), &count);
        break;
      default:
        cria_forward(slices, 1 + random.next() % 2, floats.data(), floats.size(), &count);
        break;
    }
    if (answer.id != 0) keep(answer.id);
    if (sequence.id != 0) keep(sequence.id);
    if (i % 200 == 199) {  // the engine is gone; what stands on it is not
      cria_engine next{};
      EXPECT_EQ(cria_engine_free(engine.handle), CRIA_OK);
      cria_engine_options options = CRIA_STRUCT(cria_engine_options);
      options.n_ctx = 128;
      options.sequences = 2;
      ASSERT_EQ(cria_engine_create(c_demo(), &options, &next), CRIA_OK);
      engine.handle = next;
      ids[3] = next.id;
    }
  }
  for (const std::uint64_t id : ids) {
    cria_answer_free({id});
    cria_sequence_free({id});
  }
}

}  // namespace
}  // namespace cria::test
