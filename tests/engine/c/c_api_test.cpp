// The C interface gives the same tokens, texts and bits as the C++ interface.
#include "tests/engine/c/c_api.h"

#include <cfenv>

#include "engine/c/cria.h"
#include "engine/constrain/constraint.h"
#include "engine/evaluate/perplexity.h"
#include "engine/scheduler.h"
#include "tests/engine/demo.h"

namespace cria::test {
namespace {

TEST_F(CApi, DescribesModels) {
  cria_model_info info = CRIA_STRUCT(cria_model_info);
  ASSERT_EQ(cria_model_get_info(c_demo(), &info), CRIA_OK);
  EXPECT_EQ(info.n_vocab, demo_model().vocabulary_size());
  EXPECT_EQ(info.n_ctx, demo_model().context_length());
  EXPECT_EQ(info.n_embd, demo_model().config().n_embd);
  EXPECT_EQ(info.name, demo_model().name());
  EXPECT_EQ(info.path, demo_model().path());
  EXPECT_EQ(info.bos, demo_model().vocabulary().bos.value_or(-1));
  EXPECT_STRNE(cria_version(), "");
  EXPECT_STRNE(cria_isa(), "");
}

TEST_F(CApi, TokensAndTemplatesEqualCpp) {
  const std::string text = "The river <|user|> rises\n";
  std::size_t count = 0;
  for (std::uint32_t flags = 0; flags <= (CRIA_SPECIAL | CRIA_MARKERS); ++flags) {
    EXPECT_EQ(cria_tokenize(c_demo(), text.data(), text.size(), flags, nullptr, 0, &count),
              CRIA_ERROR_CAPACITY);
    std::vector<cria_token> tokens(count);
    ASSERT_EQ(
        cria_tokenize(c_demo(), text.data(), text.size(), flags, tokens.data(), count, &count),
        CRIA_OK);
    EXPECT_EQ(tokens, demo_model().tokenizer().encode(text, (flags & CRIA_SPECIAL) != 0,
                                                      (flags & CRIA_MARKERS) != 0));
    std::string back(100, ' ');
    ASSERT_EQ(cria_detokenize(c_demo(), tokens.data(), tokens.size(), CRIA_SPECIAL, back.data(),
                              100, &count),
              CRIA_OK);
    back.resize(count);
    EXPECT_EQ(back, demo_model().tokenizer().decode(tokens, true));
  }
  const auto chat_template = ChatTemplate::from_vocabulary(demo_model().vocabulary());
  std::vector<cria_token> tokens(100);
  ASSERT_EQ(cria_template_tokens(c_demo(), kFrance, 1, nullptr, tokens.data(), 100, &count),
            CRIA_OK);
  tokens.resize(count);
  EXPECT_EQ(tokens,
            chat_template.encode(demo_model().tokenizer(), {{"user", kFrance[0].content}}, {}));
  std::string rendered(300, ' ');
  ASSERT_EQ(cria_apply_template(c_demo(), kFrance, 1, nullptr, rendered.data(), 300, &count),
            CRIA_OK);
  rendered.resize(count);
  EXPECT_NE(rendered.find(kFrance[0].content), std::string::npos);
  EXPECT_EQ(demo_model().tokenizer().encode(rendered, false, true),
            std::vector(tokens.begin() + (tokens[0] == 1 ? 1 : 0), tokens.end()));
  const cria_message whole = {"user", nullptr,
                              R"({"role": "user", "content": "What is the capital of France?"})"};
  std::string same(300, ' ');
  ASSERT_EQ(cria_apply_template(c_demo(), &whole, 1, nullptr, same.data(), 300, &count), CRIA_OK)
      << cria_last_error();
  same.resize(count);
  EXPECT_EQ(same, rendered);
}

TEST_F(CApi, AnswersEqualASessions) {
  SamplerOptions options;
  options.temperature = 1.5F;
  options.top_k = 7;
  options.seed = 11;
  ASSERT_EQ(cria_sampler_set(sampler.handle, "temperature", 1.5), CRIA_OK);
  ASSERT_EQ(cria_sampler_set(sampler.handle, "top_k", 7), CRIA_OK);
  ASSERT_EQ(cria_sampler_set_seed(sampler.handle, 11), CRIA_OK);
  const GenerateResult expected = cpp_answer(options);
  cria_request request = chat();
  request.logprobs = 1;
  request.top_logprobs = 2;
  const cria_answer answer = begin(request);
  EXPECT_EQ(read_all(answer), std::pair(expected.text, cria_status{CRIA_END}));
  cria_result result = CRIA_STRUCT(cria_result);
  ASSERT_EQ(cria_answer_result(answer, &result), CRIA_OK);
  EXPECT_EQ(std::string(result.text, result.text_size), expected.text);
  EXPECT_EQ(std::vector(result.tokens, result.tokens + result.n_tokens), expected.tokens);
  EXPECT_EQ(result.stop_reason, static_cast<std::int32_t>(expected.reason));
  ASSERT_EQ(result.n_logprobs, expected.logprobs.size());
  ASSERT_EQ(result.n_top, 2U);
  for (std::size_t i = 0; i < result.n_logprobs; ++i) {
    EXPECT_EQ(result.logprobs[i].token, expected.logprobs[i].id);
    EXPECT_EQ(result.logprobs[i].logprob, expected.logprobs[i].logprob);
    EXPECT_EQ(result.top_logprobs[2 * i + 1].token, expected.logprobs[i].top[1].first);
  }
  EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
}

TEST_F(CApi, LogitsEqualASessionsBits) {
  const std::vector<TokenId>& tokens = demo_tokens();  // two passes
  const std::vector<float> expected =
      all_logits(demo_model(), {.n_ctx = 64, .kv_type = parse_kv_type("f32")}, tokens);
  const std::size_t n_vocab = demo_model().vocabulary_size();
  std::vector<float> logits(expected.size());
  std::size_t count = 0;
  ASSERT_EQ(cria_logits(engine.handle, tokens.data(), tokens.size(), 0, logits.data(),
                        logits.size(), &count),
            CRIA_OK);
  EXPECT_EQ(count, expected.size());
  EXPECT_TRUE(same_bytes(logits, expected));
  // Two sequences at once: one from a fork that has read the beginning, one from the start, with
  // the last tokens wanted.
  cria_sequence one{}, other{}, fork{};
  ASSERT_EQ(cria_sequence_create(engine.handle, 1, &one), CRIA_OK);
  ASSERT_EQ(cria_sequence_create(engine.handle, 2, &other), CRIA_OK);
  const cria_slice beginning{one, tokens.data(), 20, 20};
  ASSERT_EQ(cria_forward(&beginning, 1, nullptr, 0, &count), CRIA_OK) << cria_last_error();
  EXPECT_EQ(count, 0U);
  ASSERT_EQ(cria_sequence_fork(one, &fork), CRIA_OK);
  const cria_slice both[] = {{fork, tokens.data() + 20, 44, 40}, {other, tokens.data(), 64, 61}};
  ASSERT_EQ(cria_forward(both, 2, logits.data(), logits.size(), &count), CRIA_OK)
      << cria_last_error();
  ASSERT_EQ(count, 7 * n_vocab);
  const std::span all(expected);
  EXPECT_TRUE(
      same_bytes({logits.begin(), logits.begin() + 4 * static_cast<std::ptrdiff_t>(n_vocab)},
                 copy(all.last(4 * n_vocab))));
  EXPECT_TRUE(same_bytes({logits.begin() + 4 * static_cast<std::ptrdiff_t>(n_vocab),
                          logits.begin() + 7 * static_cast<std::ptrdiff_t>(n_vocab)},
                         copy(all.last(3 * n_vocab))));
  std::size_t left = 0;
  ASSERT_EQ(cria_sequence_truncate(other, 10, &left), CRIA_OK);
  EXPECT_EQ(left, 10U);
  ASSERT_EQ(cria_sequence_reuse(one, tokens.data(), tokens.size(), &left), CRIA_OK);
  EXPECT_EQ(left, 64U);  // the fork has read 64
  std::vector<cria_token> held(64);
  ASSERT_EQ(cria_sequence_tokens(one, held.data(), held.size(), &count), CRIA_OK);
  EXPECT_EQ(held, tokens);
  cria_sequence fourth{};
  EXPECT_EQ(cria_sequence_create(engine.handle, 0, &fourth), CRIA_ERROR_DATA);
  EXPECT_NE(std::string(cria_last_error()).find("too many sequences"), std::string::npos);
  for (const cria_sequence sequence : {one, other, fork})
    EXPECT_EQ(cria_sequence_free(sequence), CRIA_OK);
  EXPECT_EQ(cria_sequence_truncate(one, 0, nullptr), CRIA_ERROR_HANDLE);
}

TEST_F(CApi, EmbeddingsEqualTheEngines) {
  Engine cpp(demo_model(), {.n_ctx = 256, .kv_type = parse_kv_type("f32")});
  for (const auto& [c, pooling] :
       {std::pair(CRIA_POOL_MEAN, Pooling::Mean), std::pair(CRIA_POOL_LAST, Pooling::Last)}) {
    const std::vector<TokenId>& tokens = demo_tokens();
    std::vector<float> embedding(demo_model().config().n_embd);
    std::size_t count = 0;
    EXPECT_EQ(
        cria_embed(engine.handle, tokens.data(), tokens.size(), c, embedding.data(), 1, &count),
        CRIA_ERROR_CAPACITY);
    ASSERT_EQ(
        cria_embed(engine.handle, tokens.data(), tokens.size(), c, embedding.data(), count, &count),
        CRIA_OK);
    EXPECT_TRUE(same_bytes(embedding, embed(cpp, {&tokens, 1}, pooling)[0]));
  }
}

TEST_F(CApi, TheRoundingOfACallerChangesNothing) {
  const std::vector<TokenId>& tokens = demo_tokens();
  std::vector<float> expected(demo_model().config().n_embd), got(expected.size());
  std::size_t count = 0;
  const auto embed_to = [&](std::vector<float>& embedding) {
    return cria_embed(engine.handle, tokens.data(), tokens.size(), CRIA_POOL_MEAN, embedding.data(),
                      embedding.size(), &count);
  };
  ASSERT_EQ(embed_to(expected), CRIA_OK);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const cria_status status = embed_to(got);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  ASSERT_EQ(status, CRIA_OK);
  EXPECT_TRUE(same_bytes(got, expected));
}

TEST_F(CApi, ScoresAreTheSameInEveryBatch) {
  const std::vector<TokenId>& tokens = demo_tokens();
  // The second begins as the first does, and waits for it; the last scores nothing.
  const cria_scored texts[] = {{tokens.data(), 60, 40},
                               {tokens.data(), 62, 50},
                               {tokens.data() + 5, 30, 1},
                               {tokens.data(), 9, 9}};
  std::vector<cria_score> scores(20 + 12 + 29);
  std::size_t count = 0;
  EXPECT_EQ(cria_score_tokens(engine.handle, texts, 4, 0, scores.data(), 60, &count),
            CRIA_ERROR_CAPACITY);
  ASSERT_EQ(count, scores.size());
  ASSERT_EQ(cria_score_tokens(engine.handle, texts, 4, 0, scores.data(), count, &count), CRIA_OK)
      << cria_last_error();
  const cria_score* score = scores.data();
  for (const cria_scored& text : texts) {
    Session session(demo_model(), {.n_ctx = 256, .kv_type = parse_kv_type("f32")});
    const std::vector<float> logits = all_logits(session, {text.tokens, text.n_tokens});
    const std::size_t n = demo_model().vocabulary_size();
    for (std::size_t i = text.first; i < text.n_tokens; ++i, ++score) {
      const std::span row = std::span(logits).subspan((i - 1) * n, n);
      const double log_sum = session.options().kernels->log_sum_exp(row.data(), n);
      EXPECT_EQ(score->logprob, row[static_cast<std::size_t>(text.tokens[i])] - log_sum);
      EXPECT_EQ(score->likeliest, std::ranges::max_element(row) - row.begin());
    }
  }
  const TokenId bad[] = {1, static_cast<TokenId>(demo_model().vocabulary_size())};
  for (const auto& [text, status] :
       {std::pair(cria_scored{tokens.data(), 9, 0}, CRIA_ERROR_ARGUMENT),
        std::pair(cria_scored{tokens.data(), 9, 10}, CRIA_ERROR_ARGUMENT),
        std::pair(cria_scored{nullptr, 9, 1}, CRIA_ERROR_ARGUMENT),
        std::pair(cria_scored{bad, 2, 1}, CRIA_ERROR_DATA)})
    EXPECT_EQ(cria_score_tokens(engine.handle, &text, 1, 0, scores.data(), scores.size(), &count),
              status);
}

TEST_F(CApi, PerplexityMatchesASession) {
  std::string text;
  for (int i = 0; i < 20; ++i)
    text += "The river rises in the mountains, " + std::to_string(i) + " miles away. ";
  const std::vector<TokenId> tokens = perplexity_tokens(demo_model(), text);
  for (const std::uint32_t stride : {0U, 40U}) {
    Session session(demo_model(), {.n_ctx = 64, .kv_type = parse_kv_type("f32")});
    Perplexity expected(session, tokens, {.window = 48, .stride = stride, .max_windows = 6});
    while (expected.next()) continue;
    cria_perplexity_options options = CRIA_STRUCT(cria_perplexity_options);
    options.window = 48;
    options.stride = stride;
    options.max_windows = 6;
    cria_perplexity_result result = CRIA_STRUCT(cria_perplexity_result);
    ASSERT_EQ(cria_perplexity(engine.handle, text.data(), text.size(), &options, &result), CRIA_OK)
        << cria_last_error();
    EXPECT_EQ(result.perplexity, expected.result().ppl);
    EXPECT_EQ(result.standard_error, expected.result().ppl_stderr);
    EXPECT_EQ(result.tokens, expected.result().tokens);
    EXPECT_EQ(result.windows, 6U);
  }
  cria_perplexity_result result = CRIA_STRUCT(cria_perplexity_result);
  EXPECT_EQ(cria_perplexity(engine.handle, "short", 5, nullptr, &result), CRIA_ERROR_DATA);
}

TEST_F(CApi, AnAnswerKeepsToItsConstraint) {
  Owned<cria_constraint> regex(cria_constraint_free), schema(cria_constraint_free),
      grammar(cria_constraint_free);
  ASSERT_EQ(cria_constraint_regex("[A-Z][a-z]{2,9}!", &regex.handle), CRIA_OK);
  ASSERT_EQ(cria_constraint_json_schema(R"({"type": "integer"})", &schema.handle), CRIA_OK);
  ASSERT_EQ(cria_constraint_grammar("root ::= \"yes\" | \"no\"", &grammar.handle), CRIA_OK);
  std::int32_t accepts = -1, begins = -1;
  ASSERT_EQ(cria_constraint_check(schema.handle, "12", 2, &accepts, &begins), CRIA_OK);
  EXPECT_EQ(accepts, 1);
  ASSERT_EQ(cria_constraint_check(grammar.handle, "ye", 2, &accepts, &begins), CRIA_OK);
  EXPECT_EQ(accepts, 0);
  EXPECT_EQ(begins, 1);
  cria_request request = chat();
  request.constraint = regex.handle;
  const cria_answer answer = begin(request);
  EXPECT_TRUE(Constraint::regex("[A-Z][a-z]{2,9}!")->accepts(read_all(answer).first));
  EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
  cria_constraint none{};
  EXPECT_EQ(cria_constraint_regex("(", &none), CRIA_ERROR_CONSTRAINT);
  EXPECT_EQ(none.id, 0U);
}

TEST_F(CApi, ErrorsOfAnswersKeepTheirKind) {
  const auto expect = [&](const cria_request& request, cria_status expected,
                          const std::string& text) {
    const cria_answer answer = begin(request);
    EXPECT_EQ(read_all(answer).second, expected);
    EXPECT_NE(std::string(cria_last_error()).find(text), std::string::npos) << cria_last_error();
    cria_result result = CRIA_STRUCT(cria_result);
    EXPECT_EQ(cria_answer_result(answer, &result), expected);
    EXPECT_EQ(cria_answer_free(answer), CRIA_OK);
  };
  cria_request request = CRIA_STRUCT(cria_request);
  const std::vector<TokenId> endless(300, 5);
  request.tokens = endless.data();
  request.n_tokens = endless.size();
  expect(request, CRIA_ERROR_CONTEXT, "the prompt does not fit");
  std::string wide = "root ::= \"a\"";
  for (int i = 0; i < 1000; ++i) wide += " | \"a\" root \"b\"";
  Owned<cria_constraint> grammar(cria_constraint_free);
  ASSERT_EQ(cria_constraint_grammar(wide.c_str(), &grammar.handle), CRIA_OK) << cria_last_error();
  const TokenId a = demo_model().tokenizer().encode("a", false, false).back();
  ASSERT_EQ(cria_sampler_set_bias(sampler.handle, a, 100), CRIA_OK);
  request = chat();
  request.constraint = grammar.handle;
  expect(request, CRIA_ERROR_CONSTRAINT, "too many ways");
}

}  // namespace
}  // namespace cria::test
