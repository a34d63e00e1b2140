#include "tools/serve/api/replies.h"

#include <cmath>
#include <ctime>

#include "tools/serve/api/protocols.h"

namespace cria::serve {
namespace {

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

Json call_json(const ToolCall& call, std::size_t index) {
  Json arguments = try_json(call.arguments);
  if (!arguments.is_object()) arguments = Json::object();
  return {
      {"id", call.id},
      {"function", {{"index", index}, {"name", call.name}, {"arguments", std::move(arguments)}}}};
}

}  // namespace

Json OllamaReply::line(const std::string& model, bool generate, std::string_view text) {
  Json json = {{"model", model},
               {"created_at", ollama_time(static_cast<std::int64_t>(std::time(nullptr)))}};
  if (generate)
    json["response"] = text;
  else
    json["message"] = {{"role", "assistant"}, {"content", text}};
  json["done"] = false;
  return json;
}

void OllamaReply::send(const Json& line) { exchange_->event(json_text(line)); }

void OllamaReply::begin_stream() {
  StreamForm form;
  form.lines = true;
  form.on_silence = [self = shared_from_this(), this] { send(line(model_.id, generate_, "")); };
  exchange_->begin_events(std::move(form));
}

void OllamaReply::write_thinking(Choice& /*choice*/, std::string_view piece) {
  Json json = line(model_.id, generate_, "");
  holder(json)["thinking"] = piece;
  send(json);
}

void OllamaReply::write_text(Choice& /*choice*/, const std::string& text,
                             std::span<const TextToken> tokens) {
  Json json = line(model_.id, generate_, text);
  add_logprobs(json, tokens);
  send(json);
}

void OllamaReply::end_call(Choice& /*choice*/, const ToolCall& call) {
  Json json = line(model_.id, generate_, "");
  holder(json)["tool_calls"] = Json::array({call_json(call, calls_++)});
  send(json);
}

void OllamaReply::add_logprobs(Json& line, std::span<const TextToken> tokens) const {
  if (wants_logprobs()) line["logprobs"] = chat_logprobs(tokenizer(), tokens)["content"];
}

void OllamaReply::add_end(Json& line) const {
  const Choice& choice = choices_.front();
  const GenerateResult& result = choice.result;
  const tools::AnswerUsage used = usage();
  const bool cut = tools::finish_reason(result.reason) == "length";
  line["done"] = true;
  line.update(
      {{"done_reason", cut ? "length" : "stop"},
       {"total_duration",
        nanoseconds(
            std::chrono::duration<double>(Clock::now() - exchange_->request().arrived).count())},
       {"load_duration", 0},
       {"prompt_eval_count", used.prompt},
       {"prompt_eval_duration", nanoseconds(result.prompt_seconds)},
       {"eval_count", used.completion},
       {"eval_duration", nanoseconds(result.decode_seconds)}});
}

void OllamaReply::end_stream() {
  Json last = line(model_.id, generate_, "");
  add_end(last);
  send(last);
}

// A call that the end has cut is left out.
std::string OllamaReply::whole() {
  Choice& choice = choices_.front();
  const GenerateResult& result = choice.result;
  Json json = line(model_.id, generate_, result.text);
  if (!result.reasoning.empty()) holder(json)["thinking"] = result.reasoning;
  const std::size_t calls = result.tool_calls.size() - (choice.cut_call ? 1 : 0);
  for (std::size_t i = 0; i < calls; ++i)
    holder(json)["tool_calls"].push_back(call_json(result.tool_calls[i], i));
  if (wants_logprobs()) add_logprobs(json, all_tokens(choice));
  add_end(json);
  return json_text(json);
}

}  // namespace cria::serve
