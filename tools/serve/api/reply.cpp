#include "tools/serve/api/reply.h"

#include <ctime>
#include <random>
#include <utility>

#include "tools/serve/api/embeddings.h"
#include "tools/serve/api/json_text.h"
#include "tools/serve/api/prompts.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

std::string joined(std::span<const TextToken> tokens) {
  std::string text;
  for (const TextToken& token : tokens) text += token.text;
  return text;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::string fresh_id(const char* prefix) {
  constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string id = prefix;
  for (int i = 0; i < 24; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

Reply::Reply(std::shared_ptr<Exchange> exchange, const ServedModel& model,
             CompletionRequest request, Prompts prompts, Post post, bool keep_texts)
    : exchange_(std::move(exchange)),
      model_(model),
      request_(std::move(request)),
      prompts_(std::move(prompts)),
      post_(std::move(post)),
      keep_texts_(keep_texts),
      id_(fresh_id(request_.chat ? "chatcmpl-" : "cmpl-")),
      created_(static_cast<std::int64_t>(std::time(nullptr))),
      left_(prompts_.all.size() * request_.choices) {}

Job Reply::job() {
  Job job;
  job.count = left_;
  const auto self = shared_from_this();
  job.answer = [self](std::size_t index) { return self->answer(index); };
  job.on_begin = [self] {
    self->exchange_->record().waited = seconds_since(self->exchange_->request().arrived);
  };
  job.on_failure = [self](const Failure& failure) { self->fail(failure); };
  job.on_cancelled = [self](std::size_t index, GenerateResult result) {
    self->on_cancelled(index, std::move(result));
  };
  return job;
}

AnswerRequest Reply::answer(std::size_t index) {
  const auto self = shared_from_this();
  const Prompt& prompt = prompts_.all[index / request_.choices];
  choices_.push_back({prompt, AnswerTokens(tokenizer())});
  AnswerRequest request = cria::choice(prompts_.request, index % request_.choices);
  request.prompt = prompt.tokens;
  request.sink = [self, index](std::string_view piece) {
    return self->on_text(index, piece), true;
  };
  request.options.on_thinking = [self, index](std::string_view piece) {
    return self->on_thinking(index, piece), true;
  };
  request.options.on_call = [self, index](const ToolCall& call) { self->on_call(index, call); };
  request.on_first_token = [self](double) {
    std::optional<double>& first = self->exchange_->record().first_token;
    if (!first) first = seconds_since(self->exchange_->request().arrived);
  };
  if (request_.stream)
    request.options.on_logprobs = [self, index](const TokenLogprobs& token) {
      self->on_token(index, token);
    };
  request.on_end = [self, index](GenerateResult result, const std::optional<Error>&) {
    self->on_end(index, std::move(result));
  };
  return request;
}

void Reply::fail(const Failure& failure) {
  if (std::exchange(failed_, true)) return;
  serve::fail(*exchange_, failure);
}

// ------------------------------------------------------------ what comes while the answer is
// written

void Reply::on_text(std::size_t index, std::string_view piece) {
  if (failed_) return;
  if (!request_.stream) return;
  if (wants_logprobs())
    choices_[index].held += piece;
  else
    send_text(index, std::string(piece));
}

void Reply::on_token(std::size_t index, const TokenLogprobs& token) {
  if (failed_) return;
  choices_[index].tokens.add(token);
  // Log-probabilities of the prompt arrive at the end of the answer, but are sent first.
  if (!request_.echo) send_text(index, std::exchange(choices_[index].held, {}));
}

void Reply::on_thinking(std::size_t index, std::string_view piece) {
  if (failed_) return;
  Choice& choice = choices_[index];
  if (choice.sent + choice.held.size() == 0) choice.tokens.clear();
  if (request_.stream) send_delta(index, {{"reasoning_content", piece}});
}

void Reply::on_call(std::size_t index, const ToolCall& call) {
  if (failed_) return;
  if (!request_.stream || (!request_.tools.parallel && choices_[index].calls > 0)) return;
  send_rest(index);
  const std::size_t number = choices_[index].calls++;
  RequestJson opening = {{"index", number}};
  opening.update(tools::tool_call_json({call.id, call.name, ""}));
  send_delta(index, {{"tool_calls", RequestJson::array({std::move(opening)})}});
  const RequestJson rest = {{"index", number}, {"function", {{"arguments", call.arguments}}}};
  send_delta(index, {{"tool_calls", RequestJson::array({rest})}});
}

void Reply::on_end(std::size_t index, GenerateResult result) {
  if (failed_) return;
  Choice& choice = choices_[index];
  choice.result = std::move(result);
  // A model whose calls are not constrained may have written more.
  if (!request_.tools.parallel && choice.result.tool_calls.size() > 1)
    choice.result.tool_calls.resize(1);
  --left_;
  if (request_.stream) {
    send_rest(index);
    RequestJson last = {{"index", index}};
    last[request_.chat ? "delta" : "text"] =
        request_.chat ? RequestJson::object() : RequestJson("");
    last["logprobs"] = nullptr;
    last["finish_reason"] = tools::finish_reason(choice.result);
    begin_choice(index);
    send(std::move(last));
  }
  if (left_ > 0) return;
  record(usage());
  if (request_.stream) return end_stream();
  const auto self = shared_from_this();
  post_([self] { self->answer_whole(); });
}

// The client is gone, but what it cost is counted: of its prompts what was read.
void Reply::on_cancelled(std::size_t index, GenerateResult result) {
  choices_[index].result = std::move(result);
  tools::AnswerUsage all = usage();
  all.prompt = 0;
  for (std::size_t i = 0; i < choices_.size(); i += request_.choices)
    all.prompt += tools::AnswerUsage::of(choices_[i].result).prompt;
  record(all);
}

// ------------------------------------------------------------ streams

// Sends the text that was held back, after the first chunk.
void Reply::send_rest(std::size_t index) {
  begin_choice(index);
  send_text(index, std::exchange(choices_[index].held, {}));
}

// Sends the first chunk of a choice: the role of a chat, or the echoed prompt.
void Reply::begin_choice(std::size_t index) {
  Choice& choice = choices_[index];
  if (std::exchange(choice.begun, true)) return;
  RequestJson first = {{"index", index}};
  if (request_.chat) {
    first["delta"] = {{"role", "assistant"}, {"content", ""}};
    first["logprobs"] = nullptr;
  } else if (request_.echo) {
    const std::vector<TextToken> echo = echo_tokens(choice);
    first["text"] = joined(echo);
    first["logprobs"] = wants_logprobs() ? logprobs(choice, echo) : RequestJson(nullptr);
  } else {
    return;
  }
  first["finish_reason"] = nullptr;
  send(std::move(first));
}

void Reply::send_text(std::size_t index, std::string text) {
  if (text.empty()) return;
  begin_choice(index);
  Choice& choice = choices_[index];
  choice.sent += text.size();
  const std::vector<TextToken> tokens = choice.tokens.take(choice.sent, text);
  RequestJson chunk = {{"index", index}};
  if (request_.chat)
    chunk["delta"] = {{"content", std::move(text)}};
  else
    chunk["text"] = std::move(text);
  chunk["logprobs"] = wants_logprobs() ? logprobs(choice, tokens) : RequestJson(nullptr);
  chunk["finish_reason"] = nullptr;
  send(std::move(chunk));
}

void Reply::send_delta(std::size_t index, RequestJson delta) {
  begin_choice(index);
  send({{"index", index},
        {"delta", std::move(delta)},
        {"logprobs", nullptr},
        {"finish_reason", nullptr}});
}

void Reply::send(RequestJson choice) {
  RequestJson chunk = head(true);
  chunk["choices"] = RequestJson::array({std::move(choice)});
  if (request_.include_usage) chunk["usage"] = nullptr;
  exchange_->event(json_text(chunk));
}

void Reply::end_stream() {
  if (request_.include_usage) {
    RequestJson chunk = head(true);
    chunk["choices"] = RequestJson::array();
    chunk["usage"] = tools::usage_json(usage());
    exchange_->event(json_text(chunk));
  }
  exchange_->event("[DONE]");
  exchange_->end_events();
}

// ------------------------------------------------------------ whole answers

void Reply::answer_whole() {
  const RequestJson first = head(false);
  ObjectText json;
  for (const auto& [name, value] : first.items()) json.add(name, value);
  json.add_list("choices", choices_.size(), [this](std::string& text, std::size_t index) {
    text += json_text(whole_choice(index));
  });
  json.add("usage", tools::usage_json(usage()));
  exchange_->answer(200, kJsonType, json.take());
}

RequestJson Reply::whole_choice(std::size_t index) {
  Choice& choice = choices_[index];
  RequestJson json = {{"index", index}};
  std::vector<TextToken> tokens;
  if (request_.echo) tokens = echo_tokens(choice);
  if (request_.chat)
    json["message"] = tools::answered_message(choice.result);
  else
    json["text"] = joined(tokens) + choice.result.text;
  json["logprobs"] = nullptr;
  if (wants_logprobs()) {
    for (TokenLogprobs& token : choice.result.logprobs) choice.tokens.add(std::move(token));
    std::ranges::move(choice.tokens.take(choice.result.text.size(), choice.result.text),
                      std::back_inserter(tokens));
    json["logprobs"] = logprobs(choice, tokens);
  }
  json["finish_reason"] = tools::finish_reason(choice.result);
  return json;
}

// ------------------------------------------------------------ parts of both

RequestJson Reply::head(bool chunk) const {
  const char* const kind = !request_.chat ? "text_completion"
                           : chunk        ? "chat.completion.chunk"
                                          : "chat.completion";
  return {{"id", id_},
          {"object", kind},
          {"created", created_},
          {"model", model_.id},
          {"system_fingerprint", model_.fingerprint},
          {"seed", request_.seed()}};
}

RequestJson Reply::logprobs(Choice& choice, std::span<const TextToken> tokens) const {
  return request_.chat ? chat_logprobs(tokenizer(), tokens)
                       : completion_logprobs(tokenizer(), tokens, choice.offset);
}

// The prompt's.
std::vector<TextToken> Reply::echo_tokens(Choice& choice) const {
  std::vector<TextToken> tokens;
  for (std::string& piece : echo_pieces(tokenizer(), choice.prompt)) {
    const std::size_t i = tokens.size();
    tokens.push_back({std::move(piece), std::nullopt});
    if (i > 0 && i <= choice.result.prompt_logprobs.size())
      tokens.back().logprobs = std::move(choice.result.prompt_logprobs[i - 1]);
  }
  return tokens;
}

tools::AnswerUsage Reply::usage() const {
  tools::AnswerUsage all;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const tools::AnswerUsage one = tools::AnswerUsage::of(choices_[i].result);
    all.completion += one.completion;
    all.reasoning += one.reasoning;
    if (i % request_.choices != 0) continue;  // a prompt is read once
    all.prompt += choices_[i].prompt.tokens.size();
    all.cached += one.cached;
  }
  return all;
}

void Reply::record(const tools::AnswerUsage& all) {
  RequestRecord& record = exchange_->record();
  record.prompt_tokens = all.prompt;
  record.cached_tokens = all.cached;
  record.completion_tokens = all.completion;
  const RequestJson reason = tools::finish_reason(choices_.front().result);
  if (reason.is_string()) record.finish = reason;
  if (!keep_texts_) return;
  record.answer_text.clear();
  for (const Choice& choice : choices_) record.answer_text += choice.result.text;
}

}  // namespace cria::serve
