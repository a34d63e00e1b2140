#include "tools/serve/api/replies.h"

#include <utility>

#include "tools/serve/api/prompts.h"

namespace cria::serve {
namespace {

Json message_item(const char* status) {
  return {{"id", fresh_id("msg_")},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", Json::array()}};
}

}  // namespace

// ------------------------------------------------------------ streams

void ResponsesReply::send(const std::string& type, Json data) {
  const std::lock_guard lock(mutex_);
  Json event = {{"type", type}, {"sequence_number", events_++}};
  event.update(data);
  exchange_->event(json_text(event), type);
}

void ResponsesReply::begin_stream() {
  StreamForm form;
  form.on_silence = [self = shared_from_this(), this] {
    send("response.in_progress", {{"response", response("in_progress")}});
  };
  exchange_->begin_events(std::move(form));
  for (const char* type : {"response.created", "response.in_progress"})
    send(type, {{"response", response("in_progress")}});
}

/// The place of the open item's text.
Json ResponsesReply::place() const {
  Json at = {{"item_id", item_["id"]}, {"output_index", output_.size()}};
  if (item_["type"] == "reasoning" && form_.summary)
    at["summary_index"] = 0;
  else if (item_["type"] != "function_call")
    at["content_index"] = 0;
  return at;
}

/// Returns the common prefix of the open item's event names.
const char* ResponsesReply::events() const {
  if (item_["type"] == "message") return "response.output_text";
  if (item_["type"] == "function_call") return "response.function_call_arguments";
  return form_.summary ? "response.reasoning_summary_text" : "response.reasoning_text";
}

void ResponsesReply::open(Json item) {
  if (!item_.is_null()) close(false);
  item_ = std::move(item);
  text_.clear();
  logprobs_ = Json::array();
  send("response.output_item.added", {{"output_index", output_.size()}, {"item", item_}});
  if (item_["type"] == "function_call") return;
  Json data = place();
  data["part"] = part("", Json::array());
  send(data.contains("summary_index") ? "response.reasoning_summary_part.added"
                                      : "response.content_part.added",
       std::move(data));
}

void ResponsesReply::delta(std::string_view piece, Json logprobs) {
  text_ += piece;
  Json data = place();
  data["delta"] = piece;
  if (!logprobs.is_null()) data["logprobs"] = std::move(logprobs);
  send(std::string(events()) + ".delta", std::move(data));
}

void ResponsesReply::close(bool last) {
  Json data = place();
  if (item_["type"] == "function_call") {
    data.update({{"name", item_["name"]}, {"arguments", text_}});
    item_["arguments"] = text_;
  } else {
    data["text"] = text_;
    if (item_["type"] == "message") data["logprobs"] = logprobs_;
  }
  send(std::string(events()) + ".done", std::move(data));
  if (item_["type"] != "function_call") {
    Json whole_part = part(text_, logprobs_), end = place();
    end["part"] = whole_part;
    const bool summary = end.contains("summary_index");
    send(summary ? "response.reasoning_summary_part.done" : "response.content_part.done",
         std::move(end));
    item_[summary ? "summary" : "content"].push_back(std::move(whole_part));
  }
  item_["status"] = last && incomplete() ? "incomplete" : "completed";
  send("response.output_item.done", {{"output_index", output_.size()}, {"item", item_}});
  output_.push_back(std::exchange(item_, nullptr));
}

void ResponsesReply::write_thinking(Choice& /*choice*/, std::string_view piece) {
  if (item_.is_null() || item_["type"] != "reasoning") open(reasoning_item());
  delta(piece);
}

void ResponsesReply::write_text(Choice& /*choice*/, const std::string& text,
                                std::span<const TextToken> tokens) {
  if (item_.is_null() || item_["type"] != "message") open(message_item("in_progress"));
  Json more = entries(tokens);
  for (const Json& entry : more) logprobs_.push_back(entry);
  delta(text, std::move(more));
}

void ResponsesReply::write_call(Choice& /*choice*/, const ToolCallPiece& piece) {
  if (piece.name.empty()) return delta(piece.arguments);
  open(call_item(piece.id, piece.name));
}

void ResponsesReply::end_stream() {
  if (item_.is_null() && output_.empty()) open(message_item("in_progress"));
  if (!item_.is_null()) close(true);
  const Json done = finished();
  send("response." + done["status"].get<std::string>(), {{"response", done}});
}

void ResponsesReply::fail_stream(const Failure& failure) {
  Json failed = response("failed");
  failed["output"] = output_;
  failed["error"] = {{"code", failure.code}, {"message", failure.message}};
  if (failure.code == "internal_error") exchange_->record().error = failure.message;
  send("response.failed", {{"response", std::move(failed)}});
  exchange_->end_events();
}

// ------------------------------------------------------------ whole answers

std::string ResponsesReply::whole() {
  Choice& choice = choices_.front();
  const GenerateResult& result = choice.result;
  if (!result.reasoning.empty()) {
    Json item = reasoning_item();
    const char* const member = form_.summary ? "summary" : "content";
    item_ = item;  // part() takes its type
    item[member].push_back(part(result.reasoning, nullptr));
    item_ = nullptr;
    output_.push_back(std::move(item));
  }
  if (!result.text.empty() || (output_.empty() && result.tool_calls.empty())) {
    Json item = message_item("completed");
    item_ = item;
    item["content"].push_back(
        part(result.text, wants_logprobs() ? entries(all_tokens(choice)) : Json::array()));
    item_ = nullptr;
    output_.push_back(std::move(item));
  }
  for (const ToolCall& call : result.tool_calls) {
    output_.push_back(call_item(call.id, call.name));
    output_.back()["arguments"] = call.arguments;
  }
  for (Json& item : output_) item["status"] = "completed";
  if (incomplete()) output_.back()["status"] = "incomplete";
  return json_text(finished());
}

// ------------------------------------------------------------ parts of both

bool ResponsesReply::incomplete() const {
  return tools::finish_reason(choices_.front().result.reason) == "length";
}

Json ResponsesReply::entries(std::span<const TextToken> tokens) const {
  return wants_logprobs() ? chat_logprobs(tokenizer(), tokens)["content"] : Json::array();
}

/// A part of the open item.
Json ResponsesReply::part(const std::string& text, Json logprobs) const {
  if (item_["type"] == "message")
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", Json::array()},
            {"logprobs", std::move(logprobs)}};
  return {{"type", form_.summary ? "summary_text" : "reasoning_text"}, {"text", text}};
}

Json ResponsesReply::reasoning_item() const {
  return {{"id", fresh_id("rs_")},
          {"type", "reasoning"},
          {"status", "in_progress"},
          {"summary", Json::array()},
          {"content", Json::array()}};
}

Json ResponsesReply::call_item(const std::string& id, const std::string& name) const {
  Json item = {{"id", fresh_id("fc_")},
               {"type", "function_call"},
               {"status", "in_progress"},
               {"call_id", id},
               {"name", name},
               {"arguments", ""}};
  if (const auto space = form_.spaces.find(name); space != form_.spaces.end()) {
    item["name"] = space->second.first;
    item["namespace"] = space->second.second;
  }
  return item;
}

Json ResponsesReply::response(const char* status) const {
  Json json = {{"id", id_},          {"object", "response"},   {"created_at", created_},
               {"status", status},   {"error", nullptr},       {"incomplete_details", nullptr},
               {"model", model_.id}, {"output", Json::array()}};
  json.update(form_.told);
  json.update(
      {{"usage", nullptr}, {"seed", request_.seed()}, {"system_fingerprint", model_.fingerprint}});
  return json;
}

/// Returns the response, which is kept.
Json ResponsesReply::finished() {
  Json json = response(incomplete() ? "incomplete" : "completed");
  if (incomplete()) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["output"] = output_;
  const tools::AnswerUsage used = usage();
  json["usage"] = {{"input_tokens", used.prompt},
                   {"input_tokens_details", {{"cached_tokens", used.cached}}},
                   {"output_tokens", used.completion},
                   {"output_tokens_details", {{"reasoning_tokens", used.reasoning}}},
                   {"total_tokens", used.prompt + used.completion}};
  Json conversation = std::exchange(form_.conversation, nullptr);
  conversation.push_back(tools::answered_message(choices_.front().result));
  conversation.back().erase("refusal");
  if (json["store"] == true) json["store"] = form_.keep(json, std::move(conversation));
  return json;
}

}  // namespace cria::serve
