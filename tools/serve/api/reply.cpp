#include "tools/serve/api/reply.h"

#include <ctime>
#include <random>
#include <utility>

#include "tools/serve/api/embeddings.h"
#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// {"NAME_n", "NAME_ms", "NAME_per_token_ms", "NAME_per_second"}
void add_timings(Json& to, const std::string& name, std::size_t tokens, double seconds) {
  const auto n = static_cast<double>(tokens);
  to[name + "_n"] = tokens;
  to[name + "_ms"] = seconds * 1e3;
  to[name + "_per_token_ms"] = tokens > 0 ? seconds * 1e3 / n : 0.0;
  to[name + "_per_second"] = seconds > 0 ? n / seconds : 0.0;
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

Reply::Reply(ReplyParts parts)
    : exchange_(std::move(parts.exchange)),
      lease_(std::move(parts.model)),
      model_(*lease_),
      request_(std::move(parts.request)),
      prompts_(std::move(parts.prompts)),
      created_(static_cast<std::int64_t>(std::time(nullptr))),
      post_(std::move(parts.post)),
      keep_texts_(parts.keep_texts),
      left_(prompts_.all.size() * request_.choices) {}

Job Reply::job() {
  Job job;
  job.count = left_;
  const auto self = shared_from_this();
  job.answer = [self](std::size_t index) { return self->answer(index); };
  if (request_.stream) job.on_accepted = [self] { self->begin_stream(); };
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
  choices_.push_back({index, prompt, AnswerTokens(tokenizer())});
  Choice* const choice = &choices_.back();
  AnswerRequest request = cria::choice(prompts_.request, index % request_.choices);
  request.prompt = prompt.tokens;
  request.sink = [self, choice](std::string_view piece) {
    return self->on_text(*choice, std::string(piece));
  };
  request.options.on_thinking = [self, choice](std::string_view piece) {
    return self->on_thinking(*choice, piece), true;
  };
  request.options.on_call_piece = [self, choice](const ToolCallPiece& piece) {
    self->on_call(*choice, piece);
  };
  request.options.on_call = [self, choice](const ToolCall& call) {
    const bool one_too_many = !self->request_.tools.parallel && choice->calls++ > 0;
    if (!self->failed_ && self->request_.stream && !one_too_many) self->end_call(*choice, call);
  };
  request.options.on_token = [choice](std::size_t tokens) { choice->drawn = tokens; };
  request.options.progress = [self, choice](std::size_t done, std::size_t total) {
    self->on_progress(*choice, done, total);
  };
  request.on_first_token = [self, choice](double) {
    choice->first_token = Clock::now();
    std::optional<double>& first = self->exchange_->record().first_token;
    if (!first) first = seconds_since(self->exchange_->request().arrived);
  };
  if (request_.stream)
    request.options.on_logprobs = [self, choice](const TokenLogprobs& token) {
      self->on_token(*choice, token);
    };
  request.on_end = [self, choice](GenerateResult result, const std::optional<Error>&) {
    self->on_end(*choice, std::move(result));
  };
  return request;
}

void Reply::fail(const Failure& failure) {
  if (std::exchange(failed_, true)) return;
  if (request_.stream) return fail_stream(failure);
  serve::fail(*exchange_, failure);
}

void Reply::fail_stream(const Failure& failure) { serve::fail(*exchange_, failure); }

// ------------------------------------------------------------ what comes while the answer is
// written

bool Reply::on_text(Choice& choice, std::string piece) {
  if (failed_) return true;
  const bool more = take_piece(choice, piece);
  if (request_.stream && wants_logprobs())
    choice.held += piece;
  else if (request_.stream)
    send_text(choice, piece);
  return more;
}

void Reply::on_token(Choice& choice, const TokenLogprobs& token) {
  if (failed_) return;
  choice.tokens.add(token);
  // Log-probabilities of the prompt arrive at the end of the answer, but are sent first.
  if (!request_.echo) send_text(choice, std::exchange(choice.held, {}));
}

void Reply::on_thinking(Choice& choice, std::string_view piece) {
  if (failed_) return;
  if (choice.sent + choice.held.size() == 0) choice.tokens.clear();
  if (request_.stream) write_thinking(choice, piece);
}

// A model whose calls are not constrained may write more than one.
void Reply::on_call(Choice& choice, const ToolCallPiece& piece) {
  if (failed_ || !request_.stream || (!request_.tools.parallel && piece.index > 0)) return;
  send_text(choice, std::exchange(choice.held, {}));
  write_call(choice, piece);
}

void Reply::on_progress(Choice& choice, std::size_t done, std::size_t total) {
  if (done == 0) choice.cached = choice.prompt.tokens.size() - total;
  if (!failed_ && request_.stream && request_.progress && choice.index % request_.choices == 0)
    write_progress(choice, choice.cached + done);
}

void Reply::on_end(Choice& choice, GenerateResult result) {
  if (failed_) return;
  choice.cut_call = !result.cut_calls.empty();
  std::ranges::move(std::exchange(result.cut_calls, {}), std::back_inserter(result.tool_calls));
  if (!request_.tools.parallel && result.tool_calls.size() > 1) {
    choice.cut_call = false;
    result.tool_calls.resize(1);
  }
  choice.result = std::move(result);
  --left_;
  if (request_.stream) {
    send_text(choice, std::exchange(choice.held, {}));
    end_choice(choice);
  }
  if (left_ > 0) return;
  record(usage());
  if (request_.stream) {
    end_stream();
    return exchange_->end_events();
  }
  const auto self = shared_from_this();
  post_([self] { self->exchange_->answer(200, kJsonType, self->whole()); });
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

void Reply::send_text(Choice& choice, const std::string& text) {
  if (text.empty()) return;
  choice.sent += text.size();
  write_text(choice, text, choice.tokens.take(choice.sent, text));
}

// ------------------------------------------------------------ for the forms

std::vector<TextToken> Reply::all_tokens(Choice& choice) {
  for (TokenLogprobs& token : choice.result.logprobs) choice.tokens.add(std::move(token));
  return choice.tokens.take(choice.result.text.size(), choice.result.text);
}

Json Reply::timings(const Choice& choice) const {
  const bool ended = choice.result.prompt_tokens + choice.result.cached_tokens > 0;
  const auto first = choice.first_token.value_or(Clock::now());
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  const std::size_t cached = ended ? choice.result.cached_tokens : choice.cached;
  Json json = {{"cache_n", cached}};
  add_timings(json, "prompt", choice.prompt.tokens.size() - cached,
              ended ? choice.result.prompt_seconds : seconds(first - choice.since));
  add_timings(json, "predicted",
              ended ? tools::AnswerUsage::of(choice.result).completion : choice.drawn,
              ended ? choice.result.decode_seconds : seconds(Clock::now() - first));
  return json;
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
  const Json reason = tools::finish_reason(choices_.front().result);
  if (reason.is_string()) record.finish = reason;
  if (!keep_texts_) return;
  record.answer_text.clear();
  for (const Choice& choice : choices_) record.answer_text += choice.result.text;
}

}  // namespace cria::serve
