#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/constrain/constraint.h"
#include "engine/session.h"
#include "tests/engine/demo.h"

namespace cria {
namespace {

TEST(AnyObject, TakesObjectsAndNothingElse) {
  const auto object = Constraint::any_object();
  for (const char* const text : {"{}", "{ }", "{\n    }", R"({"a":1})",
                                 R"({"a": [1, -0.5e3, true, null, "x\u00e9\ud83d\ude00\n"], "b": {}})",
                                 "{\"ключ\": \"😀\"}", R"({"a":{"b":{"c":[[[]]]}}})"})
    EXPECT_TRUE(object->accepts(text)) << text;
  for (const char* const text :
       {"", "[]", "1", "{} ", "{  }", R"({"a":01})", R"({"a":1,})", R"({"a" 1})", R"({a:1})",
        "{\"a\":\"\n\"}", R"({"a":"\ud83d"})", R"({"a":"\x"})", R"({"a":1.})", R"({"a":1e999})",
        "{\"a\":\"\xFF\"}", "{\"a\":\"\xED\xA0\x80\"}", R"({"a":12345678901234567})"})
    EXPECT_FALSE(object->accepts(text)) << text;
  EXPECT_TRUE(object->begins(R"({"a": [)"));
  EXPECT_FALSE(object->begins(R"({"a": [})"));
}

TEST(AnyObject, WhatASessionWritesParses) {
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

}  // namespace
}  // namespace cria
