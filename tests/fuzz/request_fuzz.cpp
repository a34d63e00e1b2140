// Requests of clients, and lines of `cria batch`.
#include "model/error.h"
#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/target.h"
#include "tools/commands/batch_request.h"
#include "tools/requests/request.h"
#include "tools/serve/api/decisions.h"
#include "tools/serve/api/protocols.h"

namespace cria::fuzz {
namespace {

constexpr std::size_t kTokenIds = 4096;

void check_request(const tools::CompletionRequest& request) {
  check(request.generate.sampler, kTokenIds);
  require(request.generate.sampler.seed.has_value(), "no seed");
  require(request.choices >= 1 && request.choices <= 16, "number of choices");
  require(request.generate.max_tokens >= -1, "number of tokens");
  require(request.chat ? !request.messages.empty() : !request.prompts.empty(), "nothing to answer");
  require(!request.tools.demanded() || !request.tools.tools.is_null(),
          "requires tools without any");
}

/// Translates a request of another protocol, and reads the equal one.
void run_translations(const Json& body) {
  static serve::ResponseStore store(1 << 20);
  const auto of_responses = [](const Json& json) {
    return serve::read_responses_request(json, 0, store);
  };
  const std::function<serve::EqualRequest(const Json&)> translators[] = {
      serve::read_messages_request, of_responses, serve::read_ollama_chat,
      serve::read_ollama_generate, serve::read_infill_request};
  for (const auto& translate : translators) {
    try {
      const serve::EqualRequest equal = translate(body);
      check_request(equal.chat ? tools::read_chat_request(equal.body, {}, kTokenIds)
                               : tools::read_completion_request(equal.body, {}, kTokenIds));
    } catch (const tools::RequestError& error) {
      require(error.status == 400 && !error.code.empty(), "a refusal without a code");
    }
  }
}

/// Reads a request for decisions in both forms; what is accepted has questions to answer.
void run_decisions(const Json& body) {
  static serve::ResponseStore store(1 << 20);
  for (const bool systemone : {false, true}) {
    try {
      const serve::DecisionRequest request = systemone
                                                 ? serve::read_systemone_request(body)
                                                 : serve::read_decisions_request(body, 0, store);
      require(!request.questions.empty() && request.questions.size() <= 400, "questions");
      for (const serve::DecisionQuestion& question : request.questions) {
        const std::size_t n = question.options.size();
        require(n >= 2 && n <= 255, "options");
        const std::vector<double> equal(n, 1 / static_cast<double>(n));
        (void)serve::decision_text(question);
        require(serve::decision_json(question, systemone, equal).contains("type"), "an answer");
      }
    } catch (const tools::RequestError& error) {
      require(error.status == 400 && !error.code.empty(), "a refusal without a code");
    }
  }
}

void run_request(std::string_view input) {
  const GenerateOptions defaults;
  try {
    (void)tools::parse_batch_request(std::string(input), defaults);
  } catch (const Error&) {
  }
  const Json body = tools::parse_request_json(input);
  run_translations(body);
  run_decisions(body);
  for (auto* const read : {tools::read_chat_request, tools::read_completion_request}) {
    try {
      check_request(read(body, defaults, kTokenIds, 0));
    } catch (const tools::RequestError& error) {
      require(error.status == 400 && !error.code.empty(), "a refusal without a code");
      require(!error.param.empty() || !body.is_object(), "a refusal that names no field");
    }
  }
}

std::vector<std::string> request_seeds() {
  return {
      R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"temperature":0.5,"max_tokens":5,"seed":1})",
      R"({"messages":[{"role":"system","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false})",
      R"({"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"enum":[1]}}},"n":2.0,"stop":["a","b"],"logit_bias":{"5":-100},"logprobs":true,"top_logprobs":3,"stream":true,"stream_options":{"include_usage":true}})",
      R"({"prompt":["a","b"],"echo":true,"logprobs":2,"best_of":1,"max_tokens":-1,"ignore_eos":true,"grammar":"root ::= \"a\""})",
      R"({"prompt":[[1,2],[3]],"top_k":-1,"top_p":0,"min_p":1,"repeat_penalty":1.1,"repeat_last_n":0,"chat_template_kwargs":{"a":1}})",
      R"({"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"1"}],"tools":[{"type":"function","name":"f","parameters":{}}],"text":{"format":{"type":"json_object"}},"max_output_tokens":5})",
      R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"},"max_tokens":5})",
      R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","content":"1"}],"format":"json","think":true,"options":{"num_predict":5}})",
      R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"x","text":"y"}],"prompt":"c","n_predict":5,"n_indent":2,"samplers":"infill;top_k","response_fields":["timings/prompt_n"]})",
      R"({"input":"x","questions":[{"type":"predicate","name":"n","instructions":"a"},{"type":"choice","instructions":"b","choices":[{"value":"c"},{"value":true,"description":"d"}]},{"type":"score","instructions":"e","levels":[{"label":"f"},{"label":"g"}]}]})",
      R"({"state":{"a":1},"questions":{"n":{"type":"noul","instructions":"a","criteria":{"true":"b"}},"c":{"type":"choice","instructions":[1],"criteria":{"d":null,"e":"f"}},"s":{"type":"score","instructions":"g","criteria":["h","i"]}}})",
      R"({"custom_id":"a","url":"/v1/completions","body":{"prompt":"x","max_tokens":3}})"};
}

std::vector<std::string> request_words() {
  return {"\"messages\"",
          "\"role\"",
          "\"content\"",
          "\"prompt\"",
          "\"tools\"",
          "\"tool_choice\"",
          "\"stop\"",
          "\"seed\"",
          "\"n\"",
          "\"stream\"",
          "null",
          "1e999",
          "-1",
          "5.0",
          "\\ud800",
          "[[[[[[[[",
          "{\"a\":",
          "\"type\"",
          "\"response_format\"",
          "\"logit_bias\""};
}

}  // namespace

const Target kRequest{"request", run_request, request_seeds, mutate_json, request_words};

}  // namespace cria::fuzz
