// Every field of a request: wrong, and at the edge of what it may be.
#include <gtest/gtest.h>

#include "tests/tools/serve/served_demo.h"

namespace cria::serve::test {
namespace {

struct Wrong {
  const char* field;  // a member of the body
  const char* value;  // JSON; "": left out
  const char* code;
  const char* param;  // where it begins
};

void expect_refused(ServedDemo& demo, const std::string& path, Json body, const Wrong& wrong) {
  if (std::string_view(wrong.value).empty())
    body.erase(wrong.field);
  else
    body[wrong.field] = Json::parse(wrong.value);
  const auto got = demo.answer(path, body);
  SCOPED_TRACE(body.dump().substr(0, 300) + "\n" + got->body());
  EXPECT_EQ(got->status(), 400);
  const Json error = got->json().at("error");
  EXPECT_EQ(error.at("code"), wrong.code);
  EXPECT_EQ(error.at("type"), "invalid_request_error");
  ASSERT_TRUE(error.at("param").is_string());
  EXPECT_EQ(error["param"].get<std::string>().rfind(wrong.param, 0), 0U);
  EXPECT_EQ(error["message"].get<std::string>().find('\n'), std::string::npos);
  EXPECT_LT(error["message"].get<std::string>().size(), 300U);
}

const Json kChat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 2}};

TEST(ServeFields, OfAChat) {
  ServedDemo demo;
  constexpr Wrong kWrong[] = {
      {"messages", "", "missing_required_parameter", "messages"},
      {"messages", "null", "missing_required_parameter", "messages"},
      {"messages", "\"hi\"", "invalid_type", "messages"},
      {"messages", "[]", "invalid_value", "messages"},
      {"messages", "[123]", "invalid_type", "messages[0]"},
      {"messages", "[{}]", "missing_required_parameter", "messages[0].role"},
      {"messages", R"([{"role":1,"content":"x"}])", "invalid_type", "messages[0].role"},
      {"messages", R"([{"role":"wizard","content":"x"}])", "invalid_value", "messages[0].role"},
      {"messages", R"([{"role":"user"}])", "missing_required_parameter", "messages[0].content"},
      {"messages", R"([{"role":"user","content":{"text":"x"}}])", "invalid_type",
       "messages[0].content"},
      {"messages", R"([{"role":"user","content":[{"text":"x"}]}])", "missing_required_parameter",
       "messages[0].content[0].type"},
      {"messages", R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
       "unsupported_parameter", "messages[0].content[0].type"},
      {"messages", R"([{"role":"user","content":"x"},{"role":"tool","content":"x"}])",
       "missing_required_parameter", "messages[1].tool_call_id"},
      {"messages",
       R"([{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{}}]}])",
       "missing_required_parameter", "messages[1].tool_calls[0].function.name"},
      {"messages", R"([{"role":"user","content":"x","images":["aGk="]}])", "unsupported_parameter",
       "messages[0].images"},
      {"messages",
       R"([{"role":"user","content":"x"},{"role":"assistant","function_call":{"name":"f"}}])",
       "unsupported_parameter", "messages[1].function_call"},
      {"temperature", "\"hot\"", "invalid_type", "temperature"},
      {"temperature", "true", "invalid_type", "temperature"},
      {"temperature", "-0.1", "invalid_value", "temperature"},
      {"temperature", "2.01", "invalid_value", "temperature"},
      {"top_p", "1.5", "invalid_value", "top_p"},
      {"top_k", "1.5", "invalid_type", "top_k"},
      {"top_k", "-2", "invalid_value", "top_k"},
      {"min_p", "-1", "invalid_value", "min_p"},
      {"max_tokens", "0", "invalid_value", "max_tokens"},
      {"max_tokens", "1e30", "invalid_value", "max_tokens"},
      {"max_tokens", "18446744073709551615", "invalid_value", "max_tokens"},
      {"max_completion_tokens", "[]", "invalid_type", "max_completion_tokens"},
      {"n", "0", "invalid_value", "n"},
      {"n", "17", "invalid_value", "n"},
      {"stop", "5", "invalid_type", "stop"},
      {"stop", R"(["a",5])", "invalid_type", "stop[1]"},
      {"stop", R"(["","","","","","","","","","","","","","","","",""])", "invalid_value", "stop"},
      {"logit_bias", "5", "invalid_type", "logit_bias"},
      {"logit_bias", "[1]", "invalid_type", "logit_bias[0]"},
      {"logit_bias", "[[1]]", "invalid_type", "logit_bias[0]"},
      {"logit_bias", R"([["x",1]])", "invalid_type", "logit_bias[0][0]"},
      {"logit_bias", "[[5,1],[4096,1]]", "invalid_value", "logit_bias[1][0]"},
      {"logit_bias", "[[5,101]]", "invalid_value", "logit_bias[0][1]"},
      {"logit_bias", R"({"5":true})", "invalid_type", "logit_bias.5"},
      {"logit_bias", R"({"x":1})", "invalid_value", "logit_bias"},
      {"logit_bias", R"({"4096":1})", "invalid_value", "logit_bias"},
      {"logit_bias", R"({"-1":1})", "invalid_value", "logit_bias"},
      {"logit_bias", R"({"5":101})", "invalid_value", "logit_bias.5"},
      {"seed", "-2", "invalid_value", "seed"},
      {"seed", "9223372036854775808", "invalid_value", "seed"},
      {"presence_penalty", "3", "invalid_value", "presence_penalty"},
      {"repeat_penalty", "0", "invalid_value", "repeat_penalty"},
      {"logprobs", "3", "invalid_type", "logprobs"},
      {"top_logprobs", "3", "invalid_value", "top_logprobs"},
      {"stream", "\"yes\"", "invalid_type", "stream"},
      {"stream_options", R"({"include_usage":true})", "invalid_value", "stream_options"},
      {"response_format", "5", "invalid_type", "response_format"},
      {"response_format", "\"json\"", "invalid_type", "response_format"},
      {"response_format", R"({"type":"grammar","value":"x"})", "invalid_value",
       "response_format.type"},
      {"response_format", R"({"type":"json_schema"})", "missing_required_parameter",
       "response_format.json_schema"},
      {"response_format", "{}", "missing_required_parameter", "response_format.type"},
      {"response_format", R"({"type":"xml"})", "invalid_value", "response_format.type"},
      {"response_format", R"({"type":"json_schema","json_schema":{"name":"x"}})",
       "missing_required_parameter", "response_format.json_schema.schema"},
      {"response_format", R"({"type":"json_schema","json_schema":{"name":"a b","schema":{}}})",
       "invalid_value", "response_format.json_schema.name"},
      {"system", R"("Be brief.")", "unsupported_parameter", "system"},
      {"documents", R"([{"text": "z"}])", "unsupported_parameter", "documents"},
      {"stop_sequences", R"(["i"])", "unsupported_parameter", "stop_sequences"},
      {"functions", "[]", "unsupported_parameter", "functions"},
      {"prompt", "\"Hi\"", "unsupported_parameter", "prompt"},
      {"input", "\"Hi\"", "unsupported_parameter", "input"},
      {"instructions", "\"Be brief.\"", "unsupported_parameter", "instructions"},
      {"chat_template", "\"{{ x }}\"", "unsupported_parameter", "chat_template"},
      {"extra_body", R"({"top_k":1})", "unsupported_parameter", "extra_body"},
      {"options", R"({"temperature":0})", "unsupported_parameter", "options"},
      {"format", "\"json\"", "unsupported_parameter", "format"},
      {"echo", "true", "unsupported_parameter", "echo"},
      {"suffix", "\"x\"", "unsupported_parameter", "suffix"},
      {"max_length", "5", "unsupported_parameter", "max_length"},
      {"tempreature", "0", "unsupported_parameter", "tempreature"},
      {"max_token", "5", "unsupported_parameter", "max_token"},
      {"Stream", "true", "unsupported_parameter", "Stream"},
      {"typical", "0.5", "unsupported_parameter", "typical"},
      {"think", "false", "unsupported_parameter", "think"},
      {"modalities", R"(["text","audio"])", "unsupported_parameter", "modalities"},
      {"guided_json", "{}", "unsupported_parameter", "guided_json"},
      {"json_schema", "{}", "unsupported_parameter", "json_schema"},
      {"regex", "\"x\"", "unsupported_parameter", "regex"},
      {"ebnf", "\"x\"", "unsupported_parameter", "ebnf"},
      {"guided_whitespace_pattern", "\"x\"", "unsupported_parameter", "guided_whitespace_pattern"},
      {"add_generation_prompt", "false", "unsupported_parameter", "add_generation_prompt"},
      {"skip_special_tokens", "false", "unsupported_parameter", "skip_special_tokens"},
      {"do_sample", "false", "unsupported_parameter", "do_sample"},
      {"thinking_budget", "0", "unsupported_parameter", "thinking_budget"},
      {"n_cmpl", "2", "unsupported_parameter", "n_cmpl"},
      {"rep_pen", "1.1", "unsupported_parameter", "rep_pen"},
      {"memory", "\"x\"", "unsupported_parameter", "memory"},
      {"tools", "{}", "invalid_type", "tools"},
      {"tools", R"([{"type":"banana"}])", "invalid_value", "tools[0].type"},
      {"tools", R"([{"type":"function","function":{"name":"a b"}}])", "invalid_value",
       "tools[0].function.name"},
      {"tools",
       R"([{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}])",
       "invalid_value", "tools[1].function.name"},
      {"tool_choice", "\"maybe\"", "invalid_value", "tool_choice"},
      {"tool_choice", "\"required\"", "invalid_value", "tool_choice"},
      {"ignore_eos", "\"no\"", "invalid_type", "ignore_eos"},
      {"cache_prompt", "1", "invalid_type", "cache_prompt"},
  };
  for (const Wrong& wrong : kWrong) expect_refused(demo, "/v1/chat/completions", kChat, wrong);
}

TEST(ServeFields, RejectGrammarsWithTokensOfText) {
  ServedDemo demo;
  Json body = kChat;
  body["grammar"] = "root ::= \"a\" <[300]>";
  const auto got = demo.answer("/v1/chat/completions", body);
  EXPECT_EQ(got->status(), 400);
  EXPECT_EQ(got->json().at("error").at("code"), "invalid_grammar");
}

// OpenAI's forms, and those of llama.cpp and others.
TEST(ServeFields, HaveSeveralForms) {
  ServedDemo demo;
  const auto with = [&](const char* fields) {
    Json body = kChat;
    body.update({{"temperature", 0}, {"max_tokens", 8}});
    body.update(Json::parse(fields));
    const auto got = demo.answer("/v1/chat/completions", body);
    EXPECT_EQ(got->status(), 200) << fields << got->body();
    return got->json()["choices"].dump();
  };
  const std::string plain = with("{}"), biased = with(R"({"logit_bias":{"4044":-100}})");
  EXPECT_NE(biased, plain) << "4044 begins the answer";
  for (const char* const same :
       {R"({"logit_bias":{"4044":false}})", R"({"logit_bias":[[4044,-100]]})",
        R"({"logit_bias":[[4044,false],[5,0]]})"})
    EXPECT_EQ(with(same), biased) << same;
  EXPECT_EQ(with(R"({"logit_bias":[]})"), plain);
  const std::string object = with(R"({"response_format":{"type":"json_object"}})");
  EXPECT_NE(object, plain);
  EXPECT_EQ(with(R"({"response_format":"json_object"})"), object);
  const std::string yes = with(
      R"({"response_format":{"type":"json_schema","json_schema":{
          "name":"a","schema":{"const":"yes"}}}})");
  EXPECT_NE(yes.find("yes"), std::string::npos) << yes;
  EXPECT_EQ(with(R"({"response_format":{"type":"json_schema","schema":{"const":"yes"}}})"), yes);
}

// Fields of newer clients; "models" resembles "model".
TEST(ServeFields, IgnoreUnknownNames) {
  ServedDemo demo;
  for (const char* const name : {"models", "tool", "provider", "session_id", "top_z"}) {
    Json body = kChat;
    body[name] = "x";
    EXPECT_EQ(demo.answer("/v1/chat/completions", body)->status(), 200) << name;
  }
  Json body = kChat;
  body["session_id"] = "x";
  body["chat_template_kwargs"] = {{"enable_thinking", false}, {"add_generation_prompt", true}};
  EXPECT_EQ(demo.answer("/v1/chat/completions", body)->record().ignored,
            "session_id,chat_template_kwargs.enable_thinking");
}

TEST(ServeFields, OfTheOthers) {
  ServedDemo demo;
  constexpr Wrong kCompletion[] = {
      {"prompt", "", "missing_required_parameter", "prompt"},
      {"prompt", "5", "invalid_type", "prompt"},
      {"prompt", "[]", "invalid_value", "prompt"},
      {"prompt", R"([[1],"a"])", "invalid_type", "prompt[1]"},
      {"prompt", "[-1]", "invalid_value", "prompt[0]"},
      {"prompt", "[1,4096]", "invalid_value", "prompt[1]"},
      {"prompt", "[1.5]", "invalid_type", "prompt[0]"},
      {"suffix", "\"x\"", "unsupported_model", "model"},
      {"best_of", "2", "unsupported_parameter", "best_of"},
      {"messages", "[{}]", "unsupported_parameter", "messages"},
      {"logprobs", "6", "invalid_value", "logprobs"},
      {"logprobs", "true", "invalid_type", "logprobs"},
      {"tools", R"([{"type":"function","function":{"name":"f"}}])", "unsupported_parameter",
       "tools"},
      {"add_special_tokens", "false", "unsupported_parameter", "add_special_tokens"},
      {"echo", "0", "invalid_type", "echo"}};
  for (const Wrong& wrong : kCompletion)
    expect_refused(demo, "/v1/completions", {{"prompt", "Hi"}, {"max_tokens", 2}}, wrong);
  constexpr Wrong kEmbedding[] = {
      {"input", "", "missing_required_parameter", "input"},
      {"input", "\"\"", "invalid_value", "input"},
      {"input", R"(["a",""])", "invalid_value", "input[1]"},
      {"encoding_format", "\"int8\"", "invalid_value", "encoding_format"},
      {"dimensions", "64", "invalid_value", "dimensions"}};
  for (const Wrong& wrong : kEmbedding)
    expect_refused(demo, "/v1/embeddings", {{"input", "x"}}, wrong);
  expect_refused(demo, "/tokenize", {}, {"content", "5", "invalid_type", "content"});
  expect_refused(demo, "/detokenize", {}, {"tokens", "[1,99999]", "invalid_value", "tokens[1]"});
  expect_refused(demo, "/v1/completions", {},
                 {"prompt", Json(std::vector<int>(512, 5)).dump().c_str(),
                  "context_length_exceeded", "prompt"});
}

TEST(ServeFields, RejectNonJsonBodies) {
  ServedDemo demo;
  const std::string good = kChat.dump();
  std::string members = "{";  // a quadratic search for duplicates would take minutes
  for (int i = 0; i < 20000; ++i) members += '"' + std::to_string(i) + "\":0,";
  // Parsed, these lists would take half a gigabyte.
  std::string lists = "{\"chat_template_kwargs\":{\"a\":[[]";
  for (int i = 0; i < 1'000'000; ++i) lists += ",[]";
  const std::vector<std::string> bodies = {
      "",
      "hello",
      good + " x",
      good + std::string(1, '\0'),
      good.substr(0, good.size() - 4),
      "{\"messages\":\"\xff\"}",
      "{\"messages\":\"\xed\xa0\x80\"}",
      R"({"messages":"\ud800"})",
      R"({"temperature":1e999})",
      R"({"temperature":NaN})",
      R"({"temperature":1,"temperature":0})",
      "{\"metadata\":" + std::string(200, '[') + std::string(200, ']') + "}",
      members + good.substr(1),
      lists + "]}," + good.substr(1),
      std::string(100000, '[')};
  for (const std::string& body : bodies) {
    const auto got = demo.ask("/v1/chat/completions", body);
    got->wait();
    EXPECT_EQ(got->status(), 400);
    EXPECT_EQ(got->json()["error"]["code"], "invalid_json") << body.substr(0, 100) << got->body();
  }
  const auto latin = demo.ask("/v1/chat/completions", std::string("{\"model\":\"caf\xE9\"}"));
  latin->wait();
  EXPECT_EQ(latin->json()["error"]["message"],
            "not JSON: at byte 15: invalid string: ill-formed UTF-8 byte");
  const auto array = demo.ask("/v1/chat/completions", std::string("[1]"));
  array->wait();
  EXPECT_EQ(array->json()["error"]["code"], "invalid_type");
}

// Limits are inclusive, null means absent, and integers may be written as floats.
TEST(ServeFields, AtTheEdge) {
  ServedDemo demo;
  const std::string plain = demo.answer("/v1/chat/completions", kChat)->json()["choices"].dump();
  for (const char* fields :
       {R"({"temperature":0})",
        R"({"temperature":2})",
        R"({"top_p":0})",
        R"({"top_k":-1})",
        R"({"n":16.0})",
        R"({"top_k":3000000000,"repeat_last_n":1e12})",
        R"({"guided_json":null})",
        R"({"max_tokens":-1,"max_completion_tokens":1})",
        R"({"num_predict":3,"top_n_sigma":-1})",
        R"({"prompt":"","format":"","options":{},"extra_body":{},"echo":false,"tfs_z":1})",
        R"({"seed":9223372036854775807})",
        R"({"seed":-1})",
        R"({"stop":[""]})",
        R"({"logit_bias":{"0":-100,"4095":100}})",
        R"({"logprobs":true,"top_logprobs":20})",
        R"({"stream":true,"stream_options":{"include_usage":true}})",
        R"({"repeat_last_n":-1})",
        R"({"logprobs":null,"top_logprobs":3})",
        R"({"do_sample":true,"skip_special_tokens":true,"thinking_budget":-1,"rep_pen":1})",
        R"({"response_format":"text","add_generation_prompt":true,"n_cmpl":1,"memory":""})",
        R"({"tools":[],"modalities":["text"],"suffix":null,"functions":null,"something":[{}]})"}) {
    Json body = kChat;
    body.update(Json::parse(fields));
    const auto got = demo.answer("/v1/chat/completions", body);
    EXPECT_EQ(got->status(), 200) << fields << got->body();
  }
  Json nulls = kChat;
  nulls["temperature"] = 0;
  const Json expected = demo.answer("/v1/chat/completions", nulls)->json()["choices"];
  for (const char* name :
       {"top_p", "stop", "logit_bias", "n", "stream", "tools", "seed", "response_format"})
    nulls[name] = nullptr;
  EXPECT_EQ(demo.answer("/v1/chat/completions", nulls)->json()["choices"], expected);
}

}  // namespace
}  // namespace cria::serve::test
