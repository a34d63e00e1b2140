// Sixteen clients, some of which disconnect: every answer has the bytes of a single request.
#include <gtest/gtest.h>

#include <thread>

#include "engine/constrain/constraint.h"
#include "tests/tools/serve/served_demo.h"

namespace cria::serve::test {
namespace {

struct Wanted {
  std::string prompt;
  float temperature;
  std::uint64_t seed;
  std::int64_t max_tokens;
  bool chat, ignore_eos;
  std::size_t top_logprobs;  // 0: none
  bool schema, tools;
};

const std::string kSchema =
    R"({"type":"object","properties":{"place":{"type":"string","maxLength":12},"far":{"type":"boolean"}},)"
    R"("required":["place","far"],"additionalProperties":false})";
const std::string kTools =
    R"([{"type":"function","function":{"name":"look_up","parameters":)" + kSchema + "}}]";

std::vector<Wanted> wanted_answers() {
  std::vector<Wanted> all;
  std::string text = "The river rises in the hills";
  for (std::uint64_t i = 0; i < 12; ++i) {
    text +=
        i % 3 == 0 ? " and flows to the grey sea, where the old harbour is" : " and the wind turns";
    all.push_back({i % 2 == 0 ? "What comes after this? " + text : text,
                   static_cast<float>(i % 4) * 0.5F, i, static_cast<std::int64_t>(5 + i * 7 % 60),
                   i % 3 != 1, i % 5 == 0, i % 4 == 3 ? 3U : 0U, i % 6 == 2, i % 6 == 0});
  }
  return all;
}

Json body_of(const Wanted& wanted, bool stream) {
  Json body = {{"temperature", wanted.temperature},
               {"seed", wanted.seed},
               {"max_tokens", wanted.max_tokens},
               {"ignore_eos", wanted.ignore_eos},
               {"stream", stream}};
  if (wanted.chat)
    body["messages"] = {{{"role", "user"}, {"content", wanted.prompt}}};
  else
    body["prompt"] = wanted.prompt;
  if (wanted.top_logprobs > 0)
    body["logprobs"] = wanted.chat ? Json(true) : Json(wanted.top_logprobs);
  if (wanted.top_logprobs > 0 && wanted.chat) body["top_logprobs"] = wanted.top_logprobs;
  if (wanted.schema)
    body["response_format"] = {
        {"type", "json_schema"},
        {"json_schema", {{"name", "place"}, {"schema", Json::parse(kSchema)}}}};
  if (wanted.tools) body["tools"] = Json::parse(kTools);
  return body;
}

/// Returns the text that `cria run` writes.
std::string alone(const Wanted& wanted) {
  SessionOptions session_options;
  session_options.n_ctx = 512;
  Session session(*demo_model(), session_options);
  GenerateOptions options;
  options.sampler.temperature = wanted.temperature;
  options.sampler.seed = wanted.seed;
  options.max_tokens = wanted.max_tokens;
  options.ignore_eos = wanted.ignore_eos;
  if (wanted.schema) options.constraint = Constraint::json_schema(kSchema);
  ChatOptions how;
  if (wanted.tools) how.variables = R"({"tools":)" + kTools + "}";
  if (wanted.chat) {
    const GenerateResult result = session.chat({{"user", wanted.prompt}}, options, {}, how);
    std::string text = result.text;
    for (const ToolCall& call : result.tool_calls) text += call.name + call.arguments;
    return text;
  }
  return session.generate(demo_model()->tokenizer().encode(wanted.prompt, true, true), options)
      .text;
}

/// Or of a piece of one.
std::string text_of_call(const Json& call) {
  const Json& function = call["function"];
  return function.value("name", "") + function.value("arguments", "");
}

std::string text_of(const FakeExchange& exchange) {
  if (!exchange.streamed()) {
    const Json choice = exchange.json()["choices"][0];
    if (choice.contains("text")) return choice["text"];
    const Json& message = choice["message"];
    std::string text = message["content"].is_string() ? message["content"].get<std::string>() : "";
    for (const Json& call : message.value("tool_calls", Json::array())) text += text_of_call(call);
    return text;
  }
  std::string text;
  for (const std::string& event : exchange.events()) {
    if (event == "[DONE]") continue;
    const Json choice = Json::parse(event)["choices"][0];
    if (choice.contains("text"))
      text += choice["text"];
    else {
      const Json& delta = choice["delta"];
      if (delta.contains("content") && delta["content"].is_string()) text += delta["content"];
      for (const Json& call : delta.value("tool_calls", Json::array())) text += text_of_call(call);
    }
  }
  return text;
}

void expect_the_same(const ServiceOptions& options) {
  const std::vector<Wanted> wanted = wanted_answers();
  std::vector<std::string> expected;
  for (const Wanted& one : wanted) expected.push_back(alone(one));
  ServedDemo demo(options);
  const auto client = [&](std::size_t number) {
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const std::size_t i = (number * 5 + k) % wanted.size();
      const bool stream = (number + k) % 2 == 0;
      Json body = body_of(wanted[i], stream);
      if (number % 3 == 0) body["cache_prompt"] = false;
      const std::string path = wanted[i].chat ? "/v1/chat/completions" : "/v1/completions";
      if (number % 4 == 3) {  // one that leaves
        body["stream"] = true;
        const auto exchange = demo.ask(path, body);
        exchange->wait_for_events(k % 5);
        exchange->close();
        continue;
      }
      const auto exchange = demo.answer(path, body);
      EXPECT_EQ(exchange->status(), 200) << exchange->body();
      EXPECT_EQ(text_of(*exchange), expected[i]) << body;
    }
  };
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < 16; ++i) clients.emplace_back(client, i);
  for (std::thread& one : clients) one.join();
}

TEST(ServeDeterminism, SixteenClients) { expect_the_same({}); }

TEST(ServeDeterminism, OtherSlotsAndChunks) {
  ServiceOptions options;
  options.engine.sequences = 3;
  options.engine.n_batch = 16;
  options.scheduler.prompt_tokens = 7;
  options.engine.prefix_cache = false;
  expect_the_same(options);
}

// Log-probabilities too, from another server.
TEST(ServeDeterminism, AllOfAnAnswer) {
  ServedDemo demo;
  for (const Wanted& one : wanted_answers()) {
    if (one.top_logprobs == 0) continue;
    const std::string path = one.chat ? "/v1/chat/completions" : "/v1/completions";
    const Json first = demo.answer(path, body_of(one, false))->json()["choices"];
    EXPECT_EQ(demo.answer(path, body_of(one, false))->json()["choices"], first);
    ServedDemo other;
    EXPECT_EQ(other.answer(path, body_of(one, false))->json()["choices"], first);
  }
}

}  // namespace
}  // namespace cria::serve::test
