// Fill in the middle: /infill, and "suffix" of other protocols.
#include <gtest/gtest.h>

#include <thread>

#include "tests/tools/serve/questions.h"
#include "tests/tools/serve/served_demo.h"
#include "tokenizer/fill_middle.h"
#include "tools/serve/api/replies.h"

namespace cria::serve::test {
namespace {

const std::string kBefore = "The town lies by the", kBehind = "and is known for its harbour.";

/// The demo model with bytes 1 to 5 as FIM tokens.
const std::shared_ptr<const Model>& code_model() {
  static const std::shared_ptr<const Model> model = [] {
    GgufEdit edit;
    std::uint32_t id = 6;
    for (const char* name : {"pre", "suf", "mid", "rep", "sep"})
      edit.set.emplace_back("tokenizer.ggml.fim_" + std::string(name) + "_token_id", id++);
    return demo_model_with(edit);
  }();
  return model;
}

struct Editor {
  ServedDemo served{ServiceOptions(), DemoOptions(), "", std::nullopt, code_model()};

  std::shared_ptr<FakeExchange> ask(Json more) {
    Json body = {{"input_prefix", kBefore},
                 {"input_suffix", kBehind},
                 {"temperature", 0},
                 {"n_predict", 12}};
    body.update(more);
    return served.answer("/infill", body);
  }
  Json infill(const Json& more = Json::object()) { return ask(more)->json(); }
};

TEST(ServeInfill, IsTheCompletionOfItsPrompt) {
  Editor editor;
  const FillPrompt prompt =
      fill_prompt(code_model()->tokenizer(), {kBefore, kBehind, {{"a.txt", "Ships."}}});
  const Json text =
      editor.served
          .answer(kTextPath, {{"prompt", prompt.tokens}, {"temperature", 0}, {"max_tokens", 12}})
          ->json();
  const Json files = Json::array({{{"filename", "a.txt"}, {"text", "Ships."}}});
  const Json answer = editor.infill({{"input_extra", files}});
  EXPECT_EQ(answer["content"], text["choices"][0]["text"]);
  EXPECT_EQ(answer["tokens_evaluated"], prompt.tokens.size());
  EXPECT_EQ(answer["tokens_predicted"], 12);
  EXPECT_EQ(answer["stop_type"], "limit");
  EXPECT_EQ(answer["truncated"], false);
}

TEST(ServeInfill, IsTheSameInEachForm) {
  Editor editor;
  const Json want = editor.infill()["content"];
  EXPECT_EQ(editor.infill({{"input_prefix", "The town"}, {"prompt", " lies by the"}})["content"],
            want);
  EXPECT_EQ(
      content(*editor.served.answer(
          kTextPath,
          {{"prompt", kBefore}, {"suffix", kBehind}, {"temperature", 0}, {"max_tokens", 12}})),
      want);
  EXPECT_EQ(editor.served
                .answer("/api/generate", {{"prompt", kBefore},
                                          {"suffix", kBehind},
                                          {"stream", false},
                                          {"options", {{"temperature", 0}, {"num_predict", 12}}}})
                ->json()["response"],
            want);
  const auto stream = editor.ask({{"stream", true}});
  std::string joined;
  for (const std::string& event : stream->events()) joined += Json::parse(event)["content"];
  EXPECT_EQ(joined, want);
  EXPECT_GT(stream->events().size(), 4U);
  const Json last = Json::parse(stream->events().back());
  EXPECT_EQ(last["stop"], true);
  EXPECT_EQ(last["tokens_predicted"], 12);
}

TEST(ServeInfill, EachFimTokenEndsTheAnswer) {
  Editor editor;
  for (int id = 6; id <= 10; ++id) {
    const Json answer = editor.infill({{"logit_bias", {{std::to_string(id), 100}}}});
    EXPECT_EQ(answer["content"], "") << id;
    EXPECT_EQ(answer["stop_type"], "eos") << id;
  }
  const Json endless = editor.infill({{"logit_bias", {{"6", 100}}}, {"ignore_eos", true}});
  EXPECT_EQ(endless["tokens_predicted"], 12);
}

TEST(ServeInfill, EndsBeforeALessIndentedLine) {
  Editor editor;
  const Json more = {{"grammar", R"(root ::= "    a\n      b\n\n    c\n\n  d\n    e")"},
                     {"n_predict", 60},
                     {"n_indent", 4}};
  EXPECT_EQ(editor.infill(more)["content"], "    a\n      b\n\n    c");
  Json streamed = more;
  streamed["stream"] = true;
  std::string joined;
  const auto stream = editor.ask(streamed);
  for (const std::string& event : stream->events()) joined += Json::parse(event)["content"];
  EXPECT_EQ(joined, "    a\n      b\n\n    c");
  EXPECT_EQ(Json::parse(stream->events().back())["stop_type"], "limit");
}

TEST(ServeInfill, CutsLongTexts) {
  Editor editor;
  std::string words;
  for (int i = 0; i < 1000; ++i) words += "word ";
  const Json answer =
      editor.infill({{"input_prefix", words + kBefore}, {"n_predict", 20}, {"ignore_eos", true}});
  EXPECT_EQ(answer["truncated"], true);
  EXPECT_EQ(answer["tokens_predicted"], 20);
  EXPECT_EQ(answer["tokens_evaluated"], editor.served.service().n_ctx() - 20);
  const auto refused = editor.served.answer(kTextPath, {{"prompt", words}, {"suffix", kBehind}});
  EXPECT_EQ(refused->status(), 400);
  EXPECT_EQ(refused->json()["error"]["code"], "context_length_exceeded");
}

TEST(ServeInfill, GivesTheFieldsThatAreAsked) {
  Editor editor;
  const Json names = {"content", "timings/prompt_n", "nothing", "content/x", ""};
  const Json answer = editor.infill({{"response_fields", names}, {"samplers", "infill;top_k"}});
  EXPECT_EQ(answer.size(), 2U);
  EXPECT_TRUE(answer.contains("content") && answer["timings/prompt_n"].is_number());
  EXPECT_EQ(editor.infill({{"samplers", {"infill", "top_k"}}, {"n_predict", 0}})["content"], "");
}

TEST(ServeInfill, RefusesWrongRequests) {
  Editor editor;
  const auto refusal = [&](const Json& more) {
    const Json error = editor.infill(more)["error"];
    return error["code"].get<std::string>() + " " + error["param"].get<std::string>();
  };
  EXPECT_EQ(refusal({{"input_prefix", nullptr}, {"input_suffix", nullptr}}),
            "missing_required_parameter input_prefix");
  EXPECT_EQ(refusal({{"input_extra", {{{"filename", "a"}}}}}),
            "missing_required_parameter input_extra[0].text");
  EXPECT_EQ(refusal({{"n_indent", -1}}), "invalid_value n_indent");
  EXPECT_EQ(refusal({{"response_fields", {5}}}), "invalid_type response_fields[0]");
  ServedDemo plain;
  const auto exchange = plain.answer("/infill", {{"input_prefix", "a"}});
  EXPECT_EQ(exchange->json()["error"]["code"], "unsupported_model");
  const auto several = editor.served.answer(kTextPath, {{"prompt", {"a", "b"}}, {"suffix", "c"}});
  EXPECT_EQ(several->json()["error"]["param"], "prompt");
}

TEST(LineLimit, HoldsBackOnlyWhatMayBeCut) {
  LineLimit limit(2);
  EXPECT_EQ(limit.push("a\n", false), "a");
  EXPECT_EQ(limit.push(" ", false), "");
  EXPECT_EQ(limit.push(" b\n\n", false), "\n  b");
  EXPECT_EQ(limit.push("\tc", false), "");
  EXPECT_TRUE(limit.ended());
  EXPECT_EQ(limit.finish(), "");
}

TEST(LineLimit, EndsAtALineBreakWhenItIsLate) {
  LineLimit limit(0);
  EXPECT_EQ(limit.push("a\nb", false), "a\nb");
  EXPECT_EQ(limit.push("c", true), "c");
  EXPECT_FALSE(limit.ended());
  EXPECT_EQ(limit.push("d\ne", true), "d");
  EXPECT_TRUE(limit.ended());
  LineLimit rest(4);
  EXPECT_EQ(rest.push("a\n ", false), "a");
  EXPECT_EQ(rest.finish(), "\n ");
}

}  // namespace
}  // namespace cria::serve::test
