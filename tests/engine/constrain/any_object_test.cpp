#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/constrain/constraint.h"
#include "engine/session.h"
#include "tests/engine/demo.h"

namespace cria {
namespace {

TEST(AnyObject, AcceptsOnlyObjects) {
  const auto object = Constraint::any_object();
  for (const char* const text :
       {"{}", "{ }", "{\n    }", R"({"a":1})",
        R"({"a": [1, -0.5e3, true, null, "x\u00e9\ud83d\ude00\n"], "b": {}})", "{\"ключ\": \"😀\"}",
        R"({"a":{"b":{"c":[[[]]]}}})"})
    EXPECT_TRUE(object->accepts(text)) << text;
  for (const char* const text :
       {"", "[]", "1", "{} ", "{  }", R"({"a":01})", R"({"a":1,})", R"({"a" 1})", R"({a:1})",
        "{\"a\":\"\n\"}", R"({"a":"\ud83d"})", R"({"a":"\x"})", R"({"a":1.})", R"({"a":1e999})",
        "{\"a\":\"\xFF\"}", "{\"a\":\"\xED\xA0\x80\"}", R"({"a":12345678901234567})"})
    EXPECT_FALSE(object->accepts(text)) << text;
  EXPECT_TRUE(object->begins(R"({"a": [)"));
  EXPECT_FALSE(object->begins(R"({"a": [})"));
}

TEST(AnyObject, SessionOutputParses) {
  const auto object = Constraint::any_object();
  std::size_t whole = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Session session(test::demo_model(), {.n_ctx = 256});
    GenerateOptions options;
    options.max_tokens = 100;
    options.constraint = object;
    options.sampler.seed = seed;
    options.sampler.temperature = seed < 2 ? 0.8F : 1.5F;
    options.stop = {"\""};  // says nothing inside of a constraint
    options.speculate = Speculate::Off;
    const GenerateResult one = session.chat({{"user", "Describe a cat as JSON."}}, options);
    options.speculate = Speculate::Lookup;
    const GenerateResult other = session.chat({{"user", "Describe a cat as JSON."}}, options);
    EXPECT_EQ(one.text, other.text);
    EXPECT_TRUE(object->begins(one.text)) << one.text;
    if (one.reason != StopReason::EndOfGeneration) continue;
    EXPECT_TRUE(nlohmann::json::parse(one.text).is_object());
    ++whole;
  }
  EXPECT_GT(whole, 0U);
}

// If no allowed token remains, the answer is cut: excluded text never appears.
TEST(AnyObject, WhatShallNeverComeDoesNot) {
  const Tokenizer& tokenizer = test::demo_model().tokenizer();
  for (const float temperature : {0.F, 1.F}) {
    GenerateOptions options;
    options.max_tokens = 20;
    options.constraint = Constraint::any_object();
    options.sampler.temperature = temperature;
    options.sampler.seed = 1;
    for (std::size_t id = 0; id < test::demo_model().vocabulary_size(); ++id)
      if (tokenizer.piece(static_cast<TokenId>(id)).find('{') != std::string::npos)
        options.sampler.logit_bias.emplace_back(static_cast<TokenId>(id),
                                                -std::numeric_limits<float>::infinity());
    Session session(test::demo_model(), {.n_ctx = 256});
    const GenerateResult result = session.chat({{"user", "Describe a cat as JSON."}}, options);
    EXPECT_EQ(result.text.find('{'), std::string::npos) << result.text;
    EXPECT_EQ(result.reason, StopReason::Length);
    EXPECT_LT(result.tokens.size(), 20U);
  }
}

}  // namespace
}  // namespace cria
