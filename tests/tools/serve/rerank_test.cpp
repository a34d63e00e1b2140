// /v1/rerank: the order of results, their fields, and what is refused.
#include <gtest/gtest.h>

#include "engine/vectors.h"
#include "tests/tools/serve/served_demo.h"

namespace cria::serve::test {
namespace {

std::shared_ptr<const Model> small_model(const std::string& name) {
  return Model::load(std::string(cria::test::project_root()) + "/tests/data/vectors/" + name);
}

struct Reranker {
  DemoOptions api;
  ServedDemo served;
  Reranker() : served({}, api, "", std::nullopt, small_model("bert-rank.gguf")) {}
};

TEST(ServeRerank, OrdersDocuments) {
  Reranker r;
  const Json documents = {"b", "some longer text", {{"text", "xyz"}}, "b"};
  const Json body = {{"query", "q"}, {"documents", documents}, {"return_documents", true}};
  const Json json = r.served.answer("/v1/rerank", body)->json();
  EXPECT_EQ(json["object"], "list");
  EXPECT_EQ(json["model"], "bert-rank");
  EXPECT_EQ(json["usage"]["total_tokens"], json["usage"]["prompt_tokens"]);
  const Json& results = json["results"];
  ASSERT_EQ(results.size(), 4U);
  const auto model = small_model("bert-rank.gguf");
  Engine engine(*model, {});
  const std::vector<std::string> texts = {"b", "some longer text", "xyz", "b"};
  const std::vector<float> scores = rerank(engine, "q", texts);
  std::size_t before = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t index = results[i]["index"];
    EXPECT_EQ(results[i]["relevance_score"].get<float>(), scores[index]);
    EXPECT_EQ(results[i]["document"]["text"], texts[index]);
    if (i != 0) {
      EXPECT_GE(scores[before], scores[index]);
      EXPECT_TRUE(scores[before] > scores[index] || before < index) << i;
    }
    before = index;
  }
}

TEST(ServeRerank, EachPathLimitsResults) {
  Reranker r;
  const Json body = {{"query", "q"}, {"documents", {"b", "c", "d"}}, {"top_n", 2}};
  for (const char* path : {"/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank"}) {
    const Json results = r.served.answer(path, body)->json()["results"];
    ASSERT_EQ(results.size(), 2U) << path;
    EXPECT_FALSE(results[0].contains("document"));
  }
}

TEST(ServeRerank, LogsMembersOfDocumentsThatItDoesNotRead) {
  Reranker r;
  const Json document = {{"text", "a"}, {"title", "b"}};
  const auto exchange = r.served.answer(
      "/v1/rerank", {{"query", "q"}, {"documents", {document, document}}, {"foo", 1}});
  EXPECT_EQ(exchange->status(), 200);
  EXPECT_EQ(exchange->record().ignored, "foo,documents.title");
}

TEST(ServeRerank, RefusesWrongRequests) {
  Reranker r;
  const auto code_and_field = [&](const Json& body) {
    const auto exchange = r.served.answer("/v1/rerank", body);
    EXPECT_EQ(exchange->status(), 400);
    const Json error = exchange->json()["error"];
    return error["code"].get<std::string>() + " " + error["param"].get<std::string>();
  };
  EXPECT_EQ(code_and_field({{"query", ""}, {"documents", {"a"}}}), "invalid_value query");
  EXPECT_EQ(code_and_field({{"query", "q"}, {"documents", Json::array()}}),
            "invalid_value documents");
  EXPECT_EQ(code_and_field({{"query", "q"}, {"documents", {"a", 3}}}), "invalid_type documents[1]");
  EXPECT_EQ(code_and_field({{"query", "q"}, {"documents", {"a"}}, {"top_n", 0}}),
            "invalid_value top_n");
  const Json picture = {{"text", "a"}, {"image", "aGk="}};
  EXPECT_EQ(code_and_field({{"query", "q"}, {"documents", {picture}}}),
            "unsupported_parameter documents[0].image");
  EXPECT_EQ(code_and_field({{"query", "q"}, {"documents", {"a", std::string(99, 'x')}}}),
            "context_length_exceeded documents[1]");
}

TEST(ServeRerank, ModelsAnswerOnlyWhatTheyCan) {
  Reranker r;
  EXPECT_EQ(r.served.answer("/v1/completions", {{"prompt", "a"}})->status(), 400);
  ServedDemo demo;
  EXPECT_EQ(demo.answer("/v1/rerank", {{"query", "q"}, {"documents", {"a"}}})->status(), 400);
  DemoOptions none;
  none.pooling = Pooling::None;
  ServedDemo encoder({}, none, "", std::nullopt, small_model("bert-tokens.gguf"));
  EXPECT_EQ(encoder.answer("/v1/embeddings", {{"input", "a"}})->status(), 400);
  EXPECT_EQ(
      encoder
          .answer("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}}})
          ->status(),
      400);
}

}  // namespace
}  // namespace cria::serve::test
