// Answers and streams: their parts, their order, and that both say the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

#include "tests/tools/serve/memory_limit.h"
#include "tests/tools/serve/questions.h"
#include "tests/tools/serve/served_demo.h"
#include "tools/serve/api/embeddings.h"
#include "tools/serve/api/replies.h"

namespace cria::serve::test {
namespace {

/// Its chunks, the last event being [DONE].
std::vector<Json> chunks(const FakeExchange& stream) {
  std::vector<Json> all;
  EXPECT_EQ(stream.events().back(), "[DONE]");
  for (const std::string& event : stream.events())
    if (event != "[DONE]") all.push_back(Json::parse(event));
  return all;
}

std::string joined(const std::vector<Json>& stream, std::size_t choice = 0) {
  std::string text;
  for (const Json& chunk : stream)
    for (const Json& part : chunk["choices"]) {
      if (part["index"] != choice) continue;
      if (part.contains("text"))
        text += part["text"].get<std::string>();
      else
        text += part["delta"].value("content", "");
    }
  return text;
}

TEST(ServeAnswers, AChat) {
  ServedDemo demo;
  const Json json = demo.answer(kChatPath, question("What is the capital of Norway?"))->json();
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["model"], "cria-demo-Q8_0");
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["message"], (Json{{"role", "assistant"},
                                     {"content", "The capital of Norway is Oslo."},
                                     {"refusal", nullptr}}));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["logprobs"], nullptr);
  const Json& usage = json["usage"];
  EXPECT_EQ(usage["total_tokens"],
            usage["prompt_tokens"].get<int>() + usage["completion_tokens"].get<int>());
}

TEST(ServeAnswers, AStreamIsInOrder) {
  ServedDemo demo;
  Json body = question(
      kStory,
      {{"n", 2}, {"seed", 3}, {"temperature", 1}, {"max_tokens", 20}, {"ignore_eos", true}});
  const Json whole = demo.answer(kChatPath, body)->json();
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const auto stream = demo.answer(kChatPath, body);
  EXPECT_TRUE(stream->streamed());
  const std::vector<Json> all = chunks(*stream);
  EXPECT_EQ(all.back()["choices"], Json::array());
  EXPECT_EQ(all.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
  EXPECT_EQ(all.back()["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"]);
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<Json> mine;
    for (const Json& chunk : all)
      for (const Json& part : chunk["choices"])
        if (part["index"] == i) mine.push_back(part);
    ASSERT_GT(mine.size(), 10U);
    EXPECT_EQ(mine.front()["delta"], (Json{{"role", "assistant"}, {"content", ""}}));
    EXPECT_EQ(mine.back()["delta"], Json::object());
    EXPECT_EQ(mine.back()["finish_reason"], "length");
    for (std::size_t j = 1; j + 1 < mine.size(); ++j) {
      EXPECT_EQ(mine[j]["delta"].size(), 1U);
      EXPECT_NE(mine[j]["delta"].value("content", ""), "");
      EXPECT_EQ(mine[j]["finish_reason"], nullptr);
    }
    EXPECT_EQ(joined(all, i), whole["choices"][i]["message"]["content"]);
  }
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    EXPECT_EQ(all[i]["usage"], nullptr);
    EXPECT_EQ(all[i]["id"], all.back()["id"]);
    EXPECT_EQ(all[i]["object"], "chat.completion.chunk");
  }
}

TEST(ServeAnswers, StopTexts) {
  ServedDemo demo;
  const std::string full = content(*demo.answer(kChatPath, question(kCount)));
  for (const Json& stop : {Json("5, 6"), Json::array({"8", "3, 4, 5", "4"}), Json(", 1")}) {
    const auto got = demo.answer(kChatPath, question(kCount, {{"stop", stop}, {"logprobs", true}}));
    const std::string text = content(*got);
    EXPECT_EQ(full.rfind(text, 0), 0U) << text;
    EXPECT_LT(text.size(), full.size());
    EXPECT_EQ(got->json()["choices"][0]["finish_reason"], "stop");
    const auto stream = demo.answer(
        kChatPath, question(kCount, {{"stop", stop}, {"logprobs", true}, {"stream", true}}));
    const std::vector<Json> all = chunks(*stream);
    EXPECT_EQ(joined(all), text);
    // Log-probabilities come with their text and end with it.
    Json beside = Json::array();
    for (const Json& chunk : all)
      for (const Json& part : chunk["choices"])
        if (part["logprobs"].is_object())
          for (const Json& token : part["logprobs"]["content"]) beside.push_back(token);
    EXPECT_EQ(beside, got->json()["choices"][0]["logprobs"]["content"]);
    std::string bytes;
    for (const Json& token : beside)
      for (const Json& byte : token["bytes"]) bytes += static_cast<char>(byte.get<int>());
    EXPECT_EQ(bytes.rfind(text, 0), 0U) << bytes;
  }
}

TEST(ServeAnswers, ChoicesUseConsecutiveSeeds) {
  ServedDemo demo;
  const Json more = {{"seed", 20}, {"temperature", 1.2}, {"max_tokens", 12}};
  Json several = question(kStory, more);
  several["n"] = 6;  // more than slots
  const auto all = demo.answer(kChatPath, several);
  for (std::size_t i = 0; i < 6; ++i) {
    Json one = question(kStory, more);
    one["seed"] = 20 + i;
    const auto alone = demo.answer(kChatPath, one);
    EXPECT_EQ(content(*alone), content(*all, i));
    EXPECT_EQ(alone->json()["usage"]["prompt_tokens"], all->json()["usage"]["prompt_tokens"]);
  }
}

TEST(ServeAnswers, ContinueTexts) {
  ServedDemo demo;
  const Json more = {{"max_tokens", 6}, {"temperature", 0}, {"ignore_eos", true}};
  const auto ask = [&](Json fields) {
    fields.update(more);
    return demo.answer(kTextPath, fields);
  };
  const auto several = ask({{"prompt", {"The capital of France", "In the winter of"}}});
  EXPECT_EQ(content(*several, 1), content(*ask({{"prompt", "In the winter of"}})));
  EXPECT_EQ(several->json()["usage"]["completion_tokens"], 12);

  const auto echoed = ask({{"prompt", "The capital of France"}, {"echo", true}, {"logprobs", 2}});
  EXPECT_EQ(content(*echoed), "The capital of France" + content(*several, 0));
  const Json logprobs = echoed->json()["choices"][0]["logprobs"];
  std::string tokens;
  for (const Json& token : logprobs["tokens"]) tokens += token.get<std::string>();
  EXPECT_EQ(tokens, content(*echoed));
  EXPECT_EQ(logprobs["token_logprobs"][0], nullptr);
  for (std::size_t i = 1; i < logprobs["tokens"].size(); ++i) {
    EXPECT_LE(logprobs["token_logprobs"][i], 0);
    EXPECT_EQ(logprobs["top_logprobs"][i].size(), 2U);
  }
  const auto stream = chunks(*ask(
      {{"prompt", "The capital of France"}, {"echo", true}, {"logprobs", 2}, {"stream", true}}));
  EXPECT_EQ(joined(stream), content(*echoed));
  Json offsets = Json::array();
  for (const Json& chunk : stream)
    for (const Json& part : chunk["choices"])
      if (part["logprobs"].is_object())
        for (const Json& offset : part["logprobs"]["text_offset"]) offsets.push_back(offset);
  EXPECT_EQ(offsets, logprobs["text_offset"]);
  EXPECT_EQ(content(*demo.answer(kTextPath, {{"prompt", "The"}, {"max_tokens", 0}})), "");
}

// A call is demanded: it satisfies the parameters' schema, and comes in a stream as it does whole.
TEST(ServeAnswers, EnforceRequiredCalls) {
  ServedDemo demo;
  const Json light = Json::parse(
      R"({"type":"function","function":{"name":"switch_light","parameters":{"type":"object","properties":
      {"on":{"type":"boolean"}},"required":["on"],"additionalProperties":false}}})");
  const Json fields = {
      {"tools", {light}}, {"tool_choice", "required"}, {"parallel_tool_calls", false},
      {"temperature", 1}, {"max_tokens", 200},         {"seed", 3}};
  Json several = question("Light, please.", fields);
  several["n"] = 2;
  const auto whole = demo.answer(kChatPath, several);
  ASSERT_EQ(whole->status(), 200) << whole->body();
  for (std::size_t i = 0; i < 2; ++i) {
    const Json choice = whole->json()["choices"][i];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_EQ(choice["message"]["content"], nullptr);
    ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U);
    const Json call = choice["message"]["tool_calls"][0];
    const Json arguments = Json::parse(call["function"]["arguments"].get<std::string>());
    EXPECT_TRUE(arguments["on"].is_boolean());
    EXPECT_EQ(arguments.size(), 1U);
    Json one = question("Light, please.", fields);
    one["seed"] = 3 + i;
    EXPECT_EQ(demo.answer(kChatPath, one)->json()["choices"][0]["message"], choice["message"])
        << "its id too";
    one["stream"] = true;
    std::string streamed, id;
    for (const Json& chunk : chunks(*demo.answer(kChatPath, one)))
      for (const Json& piece : chunk["choices"][0]["delta"].value("tool_calls", Json::array())) {
        EXPECT_EQ(piece["index"], 0);
        if (piece.contains("id")) id = piece["id"];
        streamed += piece["function"]["arguments"];
      }
    EXPECT_EQ(id, call["id"]);
    EXPECT_EQ(streamed, call["function"]["arguments"]);
  }
  Json bad = question("Light, please.", fields);
  for (const char* parameters :
       {R"({"type":"hiccup"})", R"({"properties":5})", R"({"properties":{"a":{"type":"hiccup"}}})",
        R"({"properties":{"a":{"$ref":"#/$defs/none"}}})"}) {
    bad["tools"][0]["function"]["parameters"] = Json::parse(parameters);
    const Json error = demo.answer(kChatPath, bad)->json()["error"];
    EXPECT_EQ(error["code"], "invalid_schema") << parameters;
    EXPECT_EQ(error["param"], "tools[0].function.parameters");
  }
}

// If calls are optional, a tool that cannot be enforced is reported once. With "strict" it is
// refused.
TEST(ServeAnswers, ParseUnconstrainedCalls) {
  std::vector<std::string> notes;
  std::mutex mutex;
  DemoOptions api;
  api.note = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    notes.push_back(text);
  };
  ServedDemo demo({}, api);
  const Json odd = Json::parse(
      R"({"type":"function","function":{"name":"odd","parameters":{"type":"object","not":{}}}})");
  Json body = question("What is the capital of Norway?", {{"tools", {odd}}, {"max_tokens", 20}});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(demo.answer(kChatPath, body)->status(), 200);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("odd: "), std::string::npos) << notes[0];
  body["tools"][0]["function"]["strict"] = true;
  EXPECT_EQ(demo.answer(kChatPath, body)->json()["error"]["param"], "tools[0].function.parameters");
}

// If answers cannot be constrained to the model's tool-call format, guarantees are refused. Without
// parallel calls, only the first call counts.
TEST(ServeAnswers, ReportUnconstrainableFormats) {
  ServedDemo demo({}, {}, "", CallForm::Glm);
  const Json tool = {{"type", "function"}, {"function", {{"name", "light"}, {"strict", false}}}};
  Json body = question("Light, please.", {{"tools", {tool, tool}}, {"max_tokens", 4}});
  body["tools"][1]["function"]["name"] = "dark";
  body["parallel_tool_calls"] = false;
  EXPECT_EQ(demo.answer(kChatPath, body)->status(), 200);
  body["tools"][1]["function"]["strict"] = true;
  Json error = demo.answer(kChatPath, body)->json()["error"];
  EXPECT_EQ(error["code"], "unsupported_parameter");
  EXPECT_EQ(error["param"], "tools[1].function.strict");
  body["tool_choice"] = "required";
  error = demo.answer(kChatPath, body)->json()["error"];
  EXPECT_EQ(error["code"], "unsupported_parameter");
  EXPECT_EQ(error["param"], "tool_choice");
}

TEST(ServeAnswers, StopAfterOneCallWithoutParallelCalls) {
  const auto model = std::make_shared<const ServedModel>(
      ServedModel::of(demo_model(), ServedDemo::chat_template(), CallForm::Glm, ""));
  const std::vector<ToolCall> calls = {{"1", "light", "{}"}, {"2", "dark", "{}"}};
  for (const bool parallel : {false, true}) {
    for (const bool stream : {false, true}) {
      CompletionRequest request;
      request.generate.sampler.seed = 1;
      request.tools.parallel = parallel;
      request.stream = stream;
      const auto exchange = std::make_shared<FakeExchange>(kChatPath, "");
      const auto reply = std::make_shared<OpenAiReply>(
          ReplyParts{exchange, model, request, Prompts{{}, {{{1}, std::nullopt}}},
                     [](const std::function<void()>& work) { work(); }, false});
      AnswerRequest answer = reply->job().answer(0);
      for (std::size_t i = 0; i < calls.size(); ++i)
        answer.options.on_call_piece({i, calls[i].id, calls[i].name, ""});
      GenerateResult result;
      result.tool_calls = calls;
      answer.on_end(result, std::nullopt);
      std::size_t told = 0;
      if (!stream) told = exchange->json()["choices"][0]["message"]["tool_calls"].size();
      for (const std::string& event : exchange->events())
        told += event.find("\"id\":\"1\"") != std::string::npos ||
                event.find("\"id\":\"2\"") != std::string::npos;
      EXPECT_EQ(told, parallel ? 2U : 1U) << stream;
    }
  }
}

// A call that is cut is given as far as it is written, from its whole name on.
TEST(ServeAnswers, GiveTruncatedCalls) {
  ServedDemo demo;
  const Json tool = {{"type", "function"}, {"function", {{"name", "switch_light"}}}};
  Json body = question("Light, please.", {{"tools", {tool}}, {"tool_choice", "required"}});
  int cut = 0;
  for (int n = 1; n < 32; ++n) {
    body["max_tokens"] = n;
    const Json choice = demo.answer(kChatPath, body)->json()["choices"][0];
    if (choice["finish_reason"] == "tool_calls") break;
    EXPECT_EQ(choice["finish_reason"], "length");
    const Json message = choice["message"];
    EXPECT_EQ(message["content"], message.contains("tool_calls") ? Json() : Json("")) << n;
    if (!message.contains("tool_calls")) continue;
    EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "switch_light");
    ++cut;
  }
  EXPECT_GT(cut, 0) << "there were calls";
}

TEST(ServeAnswers, TokensTemplatesAndEmbeddings) {
  ServedDemo demo;
  for (const std::string text : {"Hello world", "  two  spaces ", "é😀水", ""}) {
    const Json ids = demo.answer("/tokenize", {{"content", text}})->json()["tokens"];
    EXPECT_EQ(demo.answer("/detokenize", {{"tokens", ids}})->json()["content"], text);
  }
  const Json messages = {
      {{"role", "developer"},
       {"content", {{{"type", "text"}, {"text", "Be "}}, {{"type", "text"}, {"text", "short."}}}}},
      {{"role", "user"}, {"content", "Hi"}}};
  EXPECT_EQ(demo.answer("/apply-template", {{"messages", messages}})->json()["prompt"],
            "<|im_start|>system\nBe "
            "short.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  const Json closed = {{"messages", messages}, {"add_generation_prompt", false}};
  const std::string prompt = demo.answer("/apply-template", closed)->json()["prompt"];
  EXPECT_TRUE(prompt.ends_with("<|im_start|>user\nHi<|im_end|>\n")) << prompt;
  const Json numbers = demo.answer("/v1/embeddings", {{"input", {"cat", "the sea"}}})->json();
  ASSERT_EQ(numbers["data"].size(), 2U);
  double length = 0;
  for (const Json& value : numbers["data"][1]["embedding"])
    length += value.get<double>() * value.get<double>();
  EXPECT_NEAR(length, 1, 1e-5);  // sum over 256 floats
  const Json alone = demo.answer("/v1/embeddings", {{"input", "the sea"}})->json();
  EXPECT_EQ(alone["data"][0]["embedding"], numbers["data"][1]["embedding"]);
  const Json text =
      demo.answer("/v1/embeddings", {{"input", "x"}, {"encoding_format", "base64"}})->json();
  EXPECT_EQ(text["data"][0]["embedding"].get<std::string>().size(), (256 * 4 + 2) / 3 * 4U);
}

TEST(ServeAnswers, PiecesOfTokens) {
  ServedDemo demo;
  const Json ids = demo.answer("/tokenize", {{"content", "cat 水¤"}})->json()["tokens"];
  const Json tokens =
      demo.answer("/tokenize", {{"content", "cat 水¤"}, {"with_pieces", true}})->json()["tokens"];
  ASSERT_EQ(tokens.size(), ids.size());
  std::string joined;
  bool broken = false;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(tokens[i]["id"], ids[i]);
    const Json& piece = tokens[i]["piece"];
    broken = broken || piece.is_array();
    if (piece.is_string()) joined += piece.get<std::string>();
    if (piece.is_array())
      for (const Json& byte : piece) joined += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(joined, " cat 水¤");  // with the blank that a text is given in front
  EXPECT_TRUE(broken) << "no piece of this text is half a character";
  EXPECT_EQ(demo.answer("/tokenize", {{"content", ""}})->body(), R"({"tokens":[]})");
}

// Half a million tokens, a byte each: 25 bytes of text, and ten times that as a tree of JSON.
TEST(ServeAnswers, VeryManyTokensTakeTheMemoryOfTheirText) {
  constexpr std::size_t kCharacters = 240'000;
  ServedDemo demo;
  std::string text;
  for (std::size_t i = 0; i < kCharacters; ++i) text += "¤";
  const std::string body = Json{{"content", text}, {"with_pieces", true}}.dump();
  const cria::test::MemoryLimit limit(rlim_t{80} << 20);
  const auto got = demo.ask("/tokenize", body);
  got->wait();
  ASSERT_EQ(got->status(), 200) << got->body();
  EXPECT_GT(got->body().size(), 2 * kCharacters * 20);
}

TEST(ServeAnswers, ReportErrorsOfTheTemplate) {
  ServedDemo demo;
  const auto longer = demo.answer(kChatPath, question(std::string(4000, 'x') + " y"));
  EXPECT_EQ(longer->status(), 400);
  EXPECT_EQ(longer->json()["error"]["code"], "context_length_exceeded");
  EXPECT_NE(longer->json()["error"]["message"].get<std::string>().find("511"), std::string::npos);
}

TEST(ServeAnswers, RejectNonStringNames) {
  ServedDemo demo({}, {}, "caf\xE9");
  EXPECT_EQ(demo.answer("/v1/embeddings", {{"input", "cat"}})->json()["model"], "caf\xEF\xBF\xBD");
  EXPECT_EQ(demo.answer(kChatPath, question(kCount, {{"max_tokens", 1}}))->json()["model"],
            "caf\xEF\xBF\xBD");
}

// An error of any kind while an answer is written ends only that request.
TEST(ServeAnswers, ReportFailedAnswers) {
  struct NoRoom final : FakeExchange {
    using FakeExchange::FakeExchange;
    void answer(int, std::string_view, std::string, const Headers&) override {
      throw std::bad_alloc();
    }
  };
  ServedDemo demo;
  for (const auto& [path, body] : {std::pair(kChatPath, question(kCount, {{"max_tokens", 1}})),
                                   std::pair("/v1/embeddings", Json{{"input", "cat"}}),
                                   std::pair("/tokenize", Json{{"content", "cat"}})}) {
    const auto exchange = std::make_shared<NoRoom>(path, body.dump());
    demo.hand_in(exchange);
    exchange->wait();
    EXPECT_EQ(exchange->status(), 500) << path;
    EXPECT_EQ(exchange->json()["error"]["code"], "internal_error");
    EXPECT_NE(exchange->record().error, "");
  }
}

TEST(ServeAnswers, WhatWentWrongWithinIsForTheLog) {
  FakeExchange broken("/v1/completions", ""), refused("/v1/completions", "");
  fail(broken, {500, "internal_error", "no room"});
  EXPECT_EQ(broken.record().error, "no room");
  fail(refused, {503, "queue_full", "try again", 7});
  EXPECT_EQ(refused.record().error, "");
  EXPECT_TRUE(broken.headers().empty());
  EXPECT_EQ(refused.headers().front(), std::pair(std::string("Retry-After"), std::string("7")));
}

}  // namespace
}  // namespace cria::serve::test
