// /props, /slots and /lora-adapters, and what /v1/models says of models.
#include <gtest/gtest.h>

#include <thread>

#include "tests/tools/serve/questions.h"
#include "tests/tools/serve/served_demo.h"

namespace cria::serve::test {
namespace {

TEST(ServeInfo, PropertiesHaveTheDefaultsOfRequests) {
  ServedDemo demo;
  const Json props = demo.get("/props")->json();
  const Json params = props["default_generation_settings"]["params"];
  EXPECT_EQ(params["temperature"].dump(), "0.8");
  EXPECT_EQ(params["top_k"], 40);
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 512);
  EXPECT_EQ(props["total_slots"], 4);
  EXPECT_EQ(props["bos_token"], "<s>");
  EXPECT_EQ(props["eos_token"], "<|im_end|>");
  EXPECT_EQ(props["is_sleeping"], false);
  EXPECT_EQ(props.dump().find(cria::test::project_root()), std::string::npos);
  Json body = question(kCount, params);
  body["seed"] = 3;
  const std::string with_defaults = content(*demo.answer(kChatPath, body));
  Json plain = question(kCount, {{"seed", 3}});
  plain.erase("temperature");
  EXPECT_EQ(content(*demo.answer(kChatPath, plain)), with_defaults);
}

TEST(ServeInfo, ModelsSayWhatTheyAnswerWith) {
  ServedDemo demo;
  const Json model = demo.get("/v1/models")->json()["data"][0];
  EXPECT_EQ(model["architecture"]["output_modalities"], Json::array({"text"}));
  EXPECT_EQ(model["context_length"], model["meta"]["n_ctx"]);
  const std::string root = cria::test::project_root();
  ServedDemo ranker({}, {}, "", std::nullopt,
                    Model::load(root + "/tests/data/vectors/bert-rank.gguf"));
  EXPECT_EQ(ranker.get("/v1/models")->json()["data"][0]["architecture"]["output_modalities"],
            Json::array({"rerank"}));
  EXPECT_TRUE(ranker.answer("/api/show", {{"model", "x"}})->json()["capabilities"].empty());
}

TEST(ServeInfo, SlotsShowWhoComputes) {
  ServiceOptions one;
  one.engine.sequences = 2;
  ServedDemo demo(one);
  const auto busy = [&] {
    int count = 0;
    const Json slots = demo.get("/slots")->json();
    EXPECT_EQ(slots.size(), 2U);
    for (const Json& slot : slots) count += slot["is_processing"].get<bool>() ? 1 : 0;
    return count;
  };
  EXPECT_EQ(busy(), 0);
  EXPECT_EQ(demo.get("/slots", "fail_on_no_slot=1")->status(), 200);
  const auto endless =
      demo.ask(kTextPath, {{"prompt", "The"}, {"max_tokens", 500}, {"ignore_eos", true}, {"n", 2}});
  while (busy() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(demo.get("/slots", "fail_on_no_slot=1")->status(), 503);
  EXPECT_EQ(demo.get("/slots", "fail_on_no_slot=0")->status(), 200);
  endless->wait();
}

// Clients of other servers get the path to use here.
TEST(ServeInfo, PathsOfOtherServersHaveHints) {
  ServedDemo demo;
  for (const auto& [path, hint] : {std::pair{"/completion", "use /v1/completions"},
                                   {"/embedding", "use /v1/embeddings"},
                                   {"/v1/chat", "use /v1/chat/completions"},
                                   {"/v1/apply-template", "use /apply-template"},
                                   {"/healthz", "/health"},
                                   {"/v1/files", "keeps responses"},
                                   {"/v1/responses/compact", "use /v1/responses"},
                                   {"/models/load", "when a request names them"},
                                   {"/v1/internal/encode", "/tokenize"},
                                   {"/v1/internal/model/info", "/props"},
                                   {"/v1/audio/speech", "text only"}}) {
    const auto answer = demo.answer(path, {{"prompt", "Hi"}});
    EXPECT_EQ(answer->status(), 404);
    EXPECT_EQ(answer->json()["error"]["code"], "not_found");
    const std::string said = answer->json()["error"]["message"];
    EXPECT_NE(said.find(std::string("not found: ") + path + "; "), std::string::npos) << said;
    EXPECT_NE(said.find(hint), std::string::npos) << said;
  }
  EXPECT_THROW(demo.ask("/v1/responses/a", Json::object()), std::logic_error)
      << "405: a response can be read and deleted";
}

}  // namespace
}  // namespace cria::serve::test
