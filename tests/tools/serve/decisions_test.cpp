// Decisions: probabilities of the letters of a question's options.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/tools/serve/questions.h"
#include "tests/tools/serve/served_demo.h"
#include "tools/serve/api/decisions.h"

namespace cria::serve::test {
namespace {

constexpr const char* kPath = "/v1/decisions";

Json choice(std::size_t options) {
  Json choices = Json::array();
  for (std::size_t i = 0; i < options; ++i)
    choices.push_back({{"value", "option " + std::to_string(i)}});
  return {{"type", "choice"}, {"name", "c"}, {"instructions", "Which?"}, {"choices", choices}};
}

/// Probabilities of the labels after a conversation, from log-probabilities of the text.
std::vector<double> expected(ServedDemo& demo, const Json& messages, std::size_t options) {
  const Tokenizer& tokenizer = demo_model()->tokenizer();
  const std::string prompt =
      demo.answer("/apply-template", {{"messages", messages}})->json()["prompt"];
  const std::vector<TokenId> ids = tokenizer.encode(prompt, true, true);
  std::vector<double> out;
  double total = 0;
  for (std::size_t i = 0; i < options; ++i) {
    std::vector<TokenId> all = ids;
    for (const TokenId id : tokenizer.encode(decision_label(i, options), false, true))
      all.push_back(id);
    const Json echoed =
        demo.answer(kTextPath,
                    {{"prompt", all}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 0}})
            ->json()["choices"][0]["logprobs"]["token_logprobs"];
    double sum = 0;
    for (std::size_t k = ids.size(); k < all.size(); ++k) sum += echoed[k].get<double>();
    out.push_back(std::exp(sum));
    total += out.back();
  }
  for (double& value : out) value /= total;
  return out;
}

Json user_asks(const std::string& text) { return {{"role", "user"}, {"content", text}}; }

TEST(ServeDecisions, PredicateIsTheProbabilityOfYes) {
  ServedDemo demo;
  const Json question = {{"type", "predicate"}, {"name", "sea"}, {"instructions", "At sea?"}};
  const Json answer = demo.answer(kPath, {{"input", "Ships."}, {"questions", {question}}})->json();
  const Json asked = user_asks("Ships.\n\nAt sea?\n\nA) yes\nB) no\n\nAnswer with one letter.");
  const auto want = expected(demo, Json::array({asked}), 2);
  EXPECT_EQ(answer["answers"][0]["name"], "sea");
  EXPECT_NEAR(answer["answers"][0]["probability"].get<double>(), want[0], 1e-5);
  EXPECT_EQ(answer["usage"]["output_tokens"], 0);
}

TEST(ServeDecisions, ManyOptionsHaveTwoLetters) {
  ServedDemo demo;
  const Json talk = Json::array({user_asks("Hi"), {{"role", "assistant"}, {"content", "Yes?"}}});
  const Json answer =
      demo.answer(kPath, {{"input", talk}, {"questions", {choice(27)}}})->json()["answers"][0];
  std::string text = "Which?\n\n";
  for (std::size_t i = 0; i < 27; ++i)
    text += decision_label(i, 27) + ") option " + std::to_string(i) + "\n";
  Json asked = talk;
  asked.push_back(user_asks(text + "\nAnswer with one letter."));
  const auto want = expected(demo, asked, 27);
  const auto best = std::ranges::max_element(want) - want.begin();
  EXPECT_EQ(answer["choice"], "option " + std::to_string(best));
  EXPECT_NEAR(answer["confidence"].get<double>(), (27 * want[best] - 1) / 26, 1e-5);
  for (std::size_t i = 0; i < 27; ++i)
    EXPECT_NEAR(answer["probabilities"][i]["probability"].get<double>(), want[i], 1e-5) << i;
}

TEST(ServeDecisions, QuestionsDoNotDependOnEachOther) {
  ServedDemo demo;
  Json questions = Json::array();
  for (std::size_t i = 2; i <= 30; ++i) questions.push_back(choice(i));
  const Json whole = demo.answer(kPath, {{"input", kStory}, {"questions", questions}})->json();
  const Json& usage = whole["usage"];
  EXPECT_GT(usage["input_tokens_details"]["cached_tokens"], 0) << "the common prefix";
  EXPECT_LT(usage["input_tokens_details"]["cached_tokens"], usage["input_tokens"]);
  const Json& all = whole["answers"];
  for (std::size_t i = 0; i < questions.size(); i += 7)
    EXPECT_EQ(demo.answer(kPath, {{"input", kStory}, {"questions", {questions[i]}}})
                  ->json()["answers"][0],
              all[i]);
}

TEST(ServeDecisions, SystemoneNamesItsAnswers) {
  ServedDemo demo;
  const Json state = {{"city", "Oslo"}};
  const Json answer =
      demo.answer("/v1/systemone", {{"state", state},
                                    {"questions",
                                     {{"n", {{"type", "noul"}, {"instructions", "Cold?"}}},
                                      {"s",
                                       {{"type", "score"},
                                        {"instructions", {{"ask", 1}}},
                                        {"criteria", {"low", "high"}}}}}}})
          ->json();
  const auto after = [&](const std::string& text) {
    return expected(demo, Json::array({user_asks(R"({"city":"Oslo"})" + text)}), 2);
  };
  EXPECT_NEAR(answer["answers"]["n"]["noul"].get<double>(),
              after("\n\nCold?\n\nA) yes\nB) no\n\nAnswer with one letter.")[0], 1e-5);
  const Json& score = answer["answers"]["s"];
  EXPECT_NEAR(score["score"].get<double>(),
              after("\n\n{\"ask\":1}\n\nA) low\nB) high\n\nAnswer with one letter.")[1], 1e-5);
  EXPECT_EQ(score["legend"], Json({{"0", "low"}, {"1", "high"}}));
  EXPECT_EQ(score["probabilities"].size(), 2U);
}

TEST(ServeDecisions, RefusesWrongRequests) {
  ServedDemo demo;
  const auto refusal = [&](const Json& question) {
    const Json error =
        demo.answer(kPath, {{"input", "x"}, {"questions", {question}}})->json()["error"];
    return error["code"].get<std::string>() + " " + error["param"].get<std::string>();
  };
  EXPECT_EQ(refusal(choice(1)), "invalid_value questions[0].choices");
  EXPECT_EQ(refusal(choice(256)), "invalid_value questions[0].choices");
  Json twice = choice(3);
  twice["choices"][2] = twice["choices"][0];
  EXPECT_EQ(refusal(twice), "invalid_value questions[0].choices");
  EXPECT_EQ(refusal({{"type", "riddle"}, {"instructions", "x"}}),
            "invalid_value questions[0].type");
  EXPECT_EQ(refusal({{"type", "predicate"}}),
            "missing_required_parameter questions[0].instructions");
  const Json box = {{"b", {{"type", "box"}, {"instructions", "x"}}}};
  const auto exchange = demo.answer("/v1/systemone", {{"state", "x"}, {"questions", box}});
  EXPECT_EQ(exchange->json()["error"]["code"], "unsupported_parameter");
  Json many = choice(2);
  many["instructions"] = std::string(100'000, 'x');
  EXPECT_EQ(refusal(many), "context_length_exceeded input");
}

}  // namespace
}  // namespace cria::serve::test
