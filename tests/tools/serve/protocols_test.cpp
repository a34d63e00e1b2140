// Other protocols: each is a form of the same requests.
#include <gtest/gtest.h>

#include "tests/tools/serve/questions.h"
#include "tests/tools/serve/served_demo.h"
#include "tools/requests/messages.h"

namespace cria::serve::test {
namespace {

constexpr const char* kAsked = "What is the capital of Norway?";

/// Text, prompt tokens and completion tokens of an answer.
using Facts = std::tuple<std::string, int, int>;

Json user_says(const std::string& text) { return {{"role", "user"}, {"content", text}}; }

Facts facts(const Json& text, const Json& prompt, const Json& completion) {
  return {text.get<std::string>(), prompt.get<int>(), completion.get<int>()};
}
Facts of_chat(const Json& json) {
  const Json& usage = json["usage"];
  return facts(json["choices"][0]["message"]["content"], usage["prompt_tokens"],
               usage["completion_tokens"]);
}
Facts of_response(const Json& json) {
  const Json& usage = json["usage"];
  return facts(json["output"][0]["content"][0]["text"], usage["input_tokens"],
               usage["output_tokens"]);
}
Facts of_message(const Json& json) {
  const Json& usage = json["usage"];
  const int cached = usage["cache_read_input_tokens"].get<int>();
  return facts(json["content"][0]["text"], usage["input_tokens"].get<int>() + cached,
               usage["output_tokens"]);
}
Facts of_ollama(const Json& json) {
  return facts(json["message"]["content"], json["prompt_eval_count"], json["eval_count"]);
}

TEST(ServeProtocols, GiveTheSameAnswer) {
  ServedDemo demo;
  const Json talk = Json::array({user_says(kAsked)});
  const Facts chat = of_chat(
      demo.answer(kChatPath, {{"messages", talk}, {"temperature", 0}, {"max_tokens", 20}})->json());
  EXPECT_FALSE(std::get<0>(chat).empty());
  EXPECT_EQ(
      of_response(demo.answer("/v1/responses",
                              {{"input", kAsked}, {"temperature", 0}, {"max_output_tokens", 20}})
                      ->json()),
      chat);
  EXPECT_EQ(of_message(demo.answer("/v1/messages",
                                   {{"messages", talk}, {"temperature", 0}, {"max_tokens", 20}})
                           ->json()),
            chat);
  EXPECT_EQ(
      of_ollama(demo.answer("/api/chat", {{"messages", talk},
                                          {"stream", false},
                                          {"options", {{"temperature", 0}, {"num_predict", 20}}}})
                    ->json()),
      chat);
}

TEST(ServeProtocols, StreamInTheirOwnEvents) {
  ServedDemo demo;
  const auto types = [](const FakeExchange& exchange) {
    std::vector<std::string> all;
    for (const std::string& event : exchange.events()) {
      const std::string type = Json::parse(event)["type"];
      if (all.empty() || all.back() != type) all.push_back(type);
    }
    return all;
  };
  EXPECT_EQ(
      types(*demo.answer("/v1/responses", {{"input", kAsked}, {"stream", true}})),
      (std::vector<std::string>{
          "response.created", "response.in_progress", "response.output_item.added",
          "response.content_part.added", "response.output_text.delta", "response.output_text.done",
          "response.content_part.done", "response.output_item.done", "response.completed"}));
  EXPECT_EQ(types(*demo.answer("/v1/messages",
                               {{"messages", Json::array({user_says(kAsked)})}, {"stream", true}})),
            (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                      "content_block_stop", "message_delta", "message_stop"}));
  const auto lines = demo.answer("/api/chat", {{"messages", Json::array({user_says(kAsked)})}});
  EXPECT_GT(lines->events().size(), 2U) << "a stream by default";
  EXPECT_EQ(Json::parse(lines->events().back())["done"], true);
}

// Arguments are sent with each step that adds to them, from the first one on.
TEST(ServeProtocols, ArgumentsComeAsTheyAreWritten) {
  ServedDemo demo;
  const Json text = {{"type", "string"}, {"minLength", 200}, {"maxLength", 200}};
  const Json parameters = {{"type", "object"},
                           {"properties", {{"text", text}}},
                           {"required", {"text"}},
                           {"additionalProperties", false}};
  const Json function = {{"name", "note"}, {"parameters", parameters}};
  const auto stream = demo.answer(
      kChatPath,
      question("Note.", {{"tools", {{{"type", "function"}, {"function", function}}}},
                         {"tool_choice", {{"type", "function"}, {"function", {{"name", "note"}}}}},
                         {"parallel_tool_calls", false},
                         {"timings_per_token", true},
                         {"stream", true}}));
  std::vector<int> tokens;  // drawn when each piece was sent
  std::string arguments;
  for (const std::string& event : stream->events()) {
    if (event == "[DONE]") break;
    const Json chunk = Json::parse(event), delta = chunk["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    const std::string piece = delta["tool_calls"][0]["function"].value("arguments", "");
    arguments += piece;
    if (piece.empty() && tokens.empty()) continue;
    tokens.push_back(chunk["timings"]["predicted_n"]);
  }
  EXPECT_GE(Json::parse(arguments)["text"].get<std::string>().size(), 200U);
  ASSERT_GT(tokens.size(), 50U);
  for (std::size_t i = 1; i < tokens.size(); ++i)
    EXPECT_LE(tokens[i] - tokens[i - 1], 4) << "a character has up to four tokens";
}

TEST(ServeProtocols, ResponsesAreContinued) {
  ServedDemo demo;
  const Json first = demo.answer("/v1/responses", {{"input", kAsked}, {"temperature", 0}})->json();
  const Json next = demo.answer("/v1/responses", {{"input", "And of Sweden?"},
                                                  {"temperature", 0},
                                                  {"previous_response_id", first["id"]}})
                        ->json();
  const Json said = first["output"][0]["content"][0]["text"];
  const Json chat =
      demo.answer(kChatPath, {{"messages", Json::array({user_says(kAsked),
                                                        {{"role", "assistant"}, {"content", said}},
                                                        user_says("And of Sweden?")})},
                              {"temperature", 0}})
          ->json();
  EXPECT_EQ(of_response(next), of_chat(chat));
  const Json error =
      demo.answer("/v1/responses", {{"input", "x"}, {"previous_response_id", "resp_none"}})
          ->json()["error"];
  EXPECT_EQ(error["code"], "previous_response_not_found");
}

TEST(ServeProtocols, ErrorsNameTheirOwnFields) {
  ServedDemo demo;
  const auto response = demo.answer(
      "/v1/responses",
      {{"input", Json::array({user_says("x"), {{"role", "wizard"}, {"content", "x"}}})}});
  EXPECT_EQ(response->json()["error"]["param"], "input[1].role");
  const auto limit = demo.answer("/v1/responses", {{"input", "x"}, {"max_output_tokens", 0}});
  EXPECT_EQ(limit->json()["error"]["param"], "max_output_tokens");
  const Json message = demo.answer("/v1/messages", {{"messages", Json::array({user_says("x")})},
                                                    {"stop_sequences", Json::array({"a", 1})}})
                           ->json();
  EXPECT_EQ(message["error"]["type"], "invalid_request_error");
  EXPECT_NE(message["error"]["message"].get<std::string>().find("\"stop_sequences[1]\""),
            std::string::npos)
      << message;
  const Json lines = demo.answer("/api/chat", {{"messages", Json::array({user_says("x")})},
                                               {"options", {{"temperature", 9}}}})
                         ->json();
  EXPECT_TRUE(lines["error"].get<std::string>().starts_with("\"options.temperature\"")) << lines;
}

// Ollama's answers have log-probabilities, for chats and for raw prompts.
TEST(ServeProtocols, OllamaHasLogprobs) {
  ServedDemo demo;
  for (const bool raw : {false, true})
    for (const bool stream : {false, true}) {
      const auto got = demo.answer("/api/generate", {{"prompt", "The"},
                                                     {"raw", raw},
                                                     {"stream", stream},
                                                     {"logprobs", true},
                                                     {"top_logprobs", 2},
                                                     {"options", {{"num_predict", 3}}}});
      const std::vector<std::string> lines =
          stream ? got->events() : std::vector<std::string>{got->body()};
      std::string text, of_tokens;
      for (const std::string& line : lines) {
        const Json json = Json::parse(line);
        text += json["response"].get<std::string>();
        if (!json.contains("logprobs")) continue;
        for (const Json& token : json["logprobs"]) {
          of_tokens += token["token"].get<std::string>();
          EXPECT_EQ(token["top_logprobs"].size(), 2U);
          EXPECT_LE(token["logprob"].get<double>(), 0);
        }
      }
      EXPECT_NE(text, "");
      EXPECT_EQ(of_tokens, text);
    }
}

// Some protocols continue a last message of the assistant, others do so on request.
TEST(ServeProtocols, ContinueTheLastMessage) {
  ServedDemo demo;
  const auto talk = [](const Json& more = Json::object()) {
    Json last = {{"role", "assistant"}, {"content", "The capital of"}};
    last.update(more);
    return Json::array({user_says(kAsked), last});
  };
  const Json base = {{"temperature", 0}, {"max_tokens", 20}, {"stream", false}};
  const auto with = [&base](Json more) {
    more.update(base);
    return more;
  };
  const auto chat = [&](Json more) { return of_chat(demo.answer(kChatPath, with(more))->json()); };
  const Facts continued = chat({{"messages", talk()}, {"continue_final_message", true}});
  EXPECT_EQ(std::get<0>(continued), " Norway is Oslo.");
  EXPECT_NE(chat({{"messages", talk()}}), continued) << "OpenAI begins another message";
  EXPECT_EQ(chat({{"messages", talk({{"prefix", true}})}}), continued);
  EXPECT_EQ(chat({{"messages", talk({{"partial", true}})}}), continued);
  EXPECT_EQ(chat({{"messages", talk()},
                  {"continue_final_message", true},
                  {"add_generation_prompt", false}}),
            continued);
  EXPECT_EQ(of_message(demo.answer("/v1/messages", with({{"messages", talk()}}))->json()),
            continued);
  EXPECT_EQ(of_ollama(demo.answer("/api/chat", with({{"messages", talk()}}))->json()), continued);
}

// A field of another protocol is used, or the error says where it belongs.
TEST(ServeProtocols, LoseNoFieldsOfOthers) {
  ServedDemo demo;
  const Json talk = Json::array({user_says(kAsked)}), none = Json::array();
  struct Case {
    const char* path;
    Json body;
    const char* said;  ///< text of the error, or of the answer
    int status = 400;
  };
  const char* const yes = "root ::= \"yes\"";
  const Json schema = {{"type", "json_schema"},
                       {"json_schema", {{"name", "a"}, {"schema", {{"const", "yes"}}}}}};
  const Case cases[] = {
      {"/api/generate", {{"messages", talk}}, "\"messages\": it belongs to /api/chat"},
      {"/api/chat",
       {{"messages", none}, {"prompt", "x"}},
       "\"prompt\": it belongs to /api/generate"},
      {"/api/generate",
       {{"prompt", "x"}, {"raw", true}, {"system", "y"}},
       "\"system\": no template"},
      {"/api/chat", {{"messages", talk}, {"system", "y"}}, "\"system\": put it first"},
      {"/api/generate", {{"prompt", "x"}, {"template", "y"}}, "--chat-template sets the template"},
      {"/v1/messages",
       {{"messages", {{{"role", "user"}, {"content", {{{"type", "document"}}}}}}}},
       "put a document into a text block"},
      {"/api/chat", {{"messages", talk}, {"json_schema", schema}}, "\"json_schema\": use"},
      {"/v1/messages", {{"messages", talk}, {"prompt", "x"}}, "\"prompt\": put it into"},
      {"/v1/messages", {{"messages", talk}, {"n", 2}}, "\"n\": a request has one answer"},
      {"/v1/responses", {{"input", "x"}, {"messages", talk}}, "\"messages\": it belongs to /v1/ch"},
      {"/v1/responses", {{"input", "x"}, {"system", "y"}}, "\"system\": use \"instructions\""},
      {"/api/generate", {{"prompt", "x"}, {"instructions", "y"}}, "use \"system\""},
      {"/v1/completions", {{"prompt", "x"}, {"system", "y"}}, "put it into \"prompt\""},
      {"/v1/completions", {{"input", "x"}}, "\"input\" is not read here"},
      {"/v1/chat/completions", {{"prompt", "x"}}, "\"prompt\" is not read here"},
      {"/v1/messages",
       {{"messages", talk}, {"system", {{{"type", "text"}}}}},
       "\"system[0].text\""},
      {"/v1/messages",
       {{"messages", talk}, {"tools", {{{"name", "f"}, {"inputSchema", Json::object()}}}}},
       "\"tools[0].inputSchema\": use \"input_schema\""},
      {"/v1/messages",
       {{"messages", {{{"role", "user"}, {"content", {{{"type", "tool_use"}}}}}}}},
       "only the assistant's messages have calls"},
      {"/infill", {{"input_prefix", "x"}, {"suffix", "y"}}, "\"suffix\": use \"input_suffix\""},
      {"/api/chat", {{"messages", talk}, {"stream", false}, {"grammar", yes}}, "yes", 200},
      {"/api/chat",
       {{"messages", talk}, {"stream", false}, {"response_format", schema}},
       "yes",
       200},
      {"/api/generate", {{"prompt", "x"}, {"stream", false}, {"grammar", yes}}, "yes", 200},
      {"/v1/messages", {{"messages", talk}, {"grammar", yes}}, "yes", 200},
      {"/v1/messages", {{"messages", talk}, {"logprobs", true}}, "\"logprobs\": this is not"},
      {"/v1/messages", {{"messages", talk}, {"temprature", 0}}, "did you mean \"temperature\"?"},
      {"/api/chat", {{"messages", talk}, {"options", {{"top_kk", 1}}}}, "did you mean \"top_k\"?"},
      {"/api/generate", {{"prompt", "x"}, {"context", {1, 2}}}, "earlier messages to /api/chat"},
      {"/api/chat",
       {{"messages", talk}, {"context", {1, 2}}},
       "earlier messages into \"messages\""},
      {"/api/chat",
       {{"messages", talk}, {"options", {{"system", "y"}}}},
       "\"options.system\": it does not belong into \"options\""},
      {"/v1/completions", {{"prompt", "x"}, {"stop_token_ids", {2}}}, "use \"stop\""},
      {"/lora-adapters", Json::array(), "each request has its own scales", 405},
      {"/v1/messages",
       {{"messages", talk},
        {"tools",
         {{{"name", "f"},
           {"description", 5},
           {"input_schema", Json::object()},
           {"input_examples", {{{"a", 1}}}}}}}},
       "tools[0].description"},
  };
  for (const Case& one : cases) {
    const auto got = demo.answer(one.path, one.body);
    EXPECT_EQ(got->status(), one.status) << one.path << one.body;
    const std::string quoted = Json(one.said).dump();
    EXPECT_NE(got->body().find(quoted.substr(1, quoted.size() - 2)), std::string::npos)
        << one.path << one.body << got->body();
  }
  const Json limited =
      demo.answer("/api/generate",
                  {{"prompt", "The"}, {"raw", true}, {"stream", false}, {"max_tokens", 3}})
          ->json();
  EXPECT_EQ(limited["eval_count"], 3);
}

/// Texts around tools reach the prompt.
TEST(ServeProtocols, ShowDescriptionsOfTools) {
  ServedDemo demo;
  const auto tokens = [&](const char* path, const Json& body) -> int {
    const Json answer = demo.answer(path, body)->json();
    return answer.value("input_tokens", -1);
  };
  const auto with_examples = [&](const Json& examples) {
    return tokens("/v1/messages/count_tokens", {{"messages", Json::array({user_says("Hi")})},
                                                {"tools",
                                                 {{{"name", "f"},
                                                   {"input_schema", {{"type", "object"}}},
                                                   {"input_examples", examples}}}}});
  };
  EXPECT_GT(with_examples({{{"city", "Bergen"}}}), with_examples(Json::array()));
  const auto result = [&](bool failed) {
    const Json call = {{"type", "tool_use"}, {"id", "1"}, {"name", "f"}, {"input", Json::object()}};
    const Json told = {{"type", "tool_result"},
                       {"tool_use_id", "1"},
                       {"content", "unknown city"},
                       {"is_error", failed}};
    return tokens("/v1/messages/count_tokens",
                  {{"messages",
                    {user_says("Hi"),
                     {{"role", "assistant"}, {"content", Json::array({call})}},
                     {{"role", "user"}, {"content", Json::array({told})}}}}});
  };
  EXPECT_GT(result(true), result(false));
}

TEST(ServeProtocols, LogWhatTheyIgnore) {
  ServedDemo demo;
  const Json talk = Json::array({user_says("Hi")});
  const auto text_part = [](const char* type) {
    return Json{{"type", type}, {"text", "Hi"}, {"lang", "en"}, {"cache_control", {{"ttl", "5m"}}}};
  };
  struct Case {
    const char* path;
    Json body;
    const char* ignored;
  };
  const Case cases[] = {
      {"/v1/responses",
       {{"input", "Hi"}, {"max_output_tokens", 1}, {"tools", {{{"type", "web_search"}}}}},
       "tools.web_search"},
      {"/v1/responses",
       {{"input", "Hi"},
        {"max_output_tokens", 1},
        {"tools",
         {{{"type", "namespace"},
           {"name", "n"},
           {"description", "All of it."},
           {"tools", {{{"type", "function"}, {"name", "f"}, {"parameters", Json::object()}}}}}}}},
       "tools.namespace.description"},
      {"/v1/messages",
       {{"messages", talk},
        {"max_tokens", 1},
        {"tools", {{{"type", "bash_20250124"}, {"name", "bash"}}}}},
       "tools.bash_20250124"},
      {"/v1/messages/count_tokens", {{"messages", talk}, {"foo", 1}}, "foo"},
      {"/v1/embeddings", {{"input", "Hi"}, {"instruction", "Find"}, {"user", "a"}}, "instruction"},
      {"/api/embed", {{"model", ""}, {"input", "Hi"}, {"prompt", "a"}}, "prompt"},
      {"/tokenize", {{"content", "Hi"}, {"foo", 1}}, "foo"},
      {"/apply-template", {{"messages", talk}, {"foo", 1}}, "foo"},
      {"/v1/chat/completions",
       {{"messages", {{{"role", "user"}, {"content", "Hi"}, {"nick", "Ana"}}}}, {"max_tokens", 1}},
       "messages.nick"},
      {"/v1/chat/completions",
       {{"messages",
         {{{"role", "user"}, {"content", "Hi"}, {"tool_calls", {1}}, {"refusal", "a"}}}},
        {"max_tokens", 1}},
       "messages.tool_calls,messages.refusal"},
      {"/v1/chat/completions",  // the template shows no thoughts
       {{"messages",
         {user_says("Hi"),
          {{"role", "assistant"}, {"content", "Ho"}, {"refusal", "a"}, {"reasoning", "b"}},
          user_says("Hi")}},
        {"max_tokens", 1}},
       "messages.refusal,messages.reasoning"},
      {"/v1/chat/completions",
       {{"messages", {{{"role", "user"}, {"content", {text_part("text")}}}}}, {"max_tokens", 1}},
       "messages.content.lang"},
      {"/v1/responses",
       {{"input", {{{"role", "user"}, {"content", {text_part("input_text")}}, {"nick", "Ana"}}}},
        {"max_output_tokens", 1}},
       "input.lang,input.nick"},
      {"/v1/messages",
       {{"messages", {{{"role", "user"}, {"content", {text_part("text")}}, {"nick", "Ana"}}}},
        {"system", {text_part("text")}},
        {"max_tokens", 1}},
       "messages.lang,messages.nick"},
      {"/api/chat",
       {{"messages", {{{"role", "user"}, {"content", "Hi"}, {"nick", "Ana"}}}},
        {"options", {{"num_predict", 1}}}},
       "messages.nick"},
  };
  for (const Case& one : cases) {
    const auto got = demo.answer(one.path, one.body);
    EXPECT_EQ(got->status(), 200) << one.path << got->body();
    EXPECT_EQ(got->record().ignored, one.ignored) << one.path;
  }
  EXPECT_EQ(demo.answer("/api/embed", {{"input", "Hi"}, {"dimensions", 4}})->status(), 400);
}

// Ollama's place for images.
TEST(ServeProtocols, RefuseImagesBesideTheTextOfAMessage) {
  ServedDemo demo;
  Json message = user_says("Hi");
  message["images"] = {"aGk="};
  for (const char* const path : {"/v1/chat/completions", "/v1/messages", "/api/chat"})
    EXPECT_EQ(demo.answer(path, {{"messages", {message}}, {"max_tokens", 1}})->status(), 400)
        << path;
  EXPECT_EQ(demo.answer("/v1/responses", {{"input", {message}}})->status(), 400);
}

TEST(Repairs, AreAsFewAsTheTemplateNeeds) {
  const auto accepts = [](const tools::TemplateInput& input) {
    for (std::size_t i = 1; i < input.messages.size(); ++i)
      if (input.messages[i].role == input.messages[i - 1].role) return false;
    return input.messages.front().role != "system";
  };
  tools::TemplateInput input{{{"system", "A."}, {"user", "B."}, {"user", "C."}}, ""};
  EXPECT_EQ(tools::repair(input, accepts), (std::vector<std::string>{"join", "fold"}));
  ASSERT_EQ(input.messages.size(), 1U);
  EXPECT_EQ(input.messages[0].content, "A.\n\nB.\n\nC.");
  tools::TemplateInput hopeless{{{"user", "A."}, {"user", "B."}}, ""};
  EXPECT_EQ(tools::repair(hopeless, [](const auto&) { return false; }),
            (std::vector<std::string>{}));
  EXPECT_EQ(hopeless.messages.size(), 2U) << "unchanged";
}

}  // namespace
}  // namespace cria::serve::test
