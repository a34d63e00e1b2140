#include "tools/serve/api/replies.h"

namespace cria::serve {
namespace {

/// The id of a call as Anthropic's clients expect it.
std::string tool_use_id(const std::string& id) {
  constexpr std::string_view kOurs = "call_";
  return "toolu_" + (id.starts_with(kOurs) ? id.substr(kOurs.size()) : id);
}

}  // namespace

void MessagesReply::send(const char* type, Json data) {
  Json event = {{"type", type}};
  event.update(data);
  exchange_->event(json_text(event), type);
}

void MessagesReply::begin_stream() {
  StreamForm form;
  form.on_silence = [self = shared_from_this(), this] {
    exchange_->event(R"({"type":"ping"})", "ping");
  };
  exchange_->begin_events(std::move(form));
  Json started = message();
  tools::AnswerUsage used;
  used.prompt = prompts_.all.front().tokens.size();
  started["usage"] = usage_of(used);
  send("message_start", {{"message", std::move(started)}});
}

void MessagesReply::open(const char* type, Json block) {
  if (open_ == type && open_ != "tool_use") return;
  close();
  open_ = type;
  has_input_ = false;
  send("content_block_start", {{"index", blocks_++}, {"content_block", std::move(block)}});
}

void MessagesReply::close() {
  if (open_.empty()) return;
  if (open_ == "tool_use" && !has_input_ && !choices_.front().cut_call)
    add("input_json_delta", "partial_json", "{}");
  open_.clear();
  send("content_block_stop", {{"index", blocks_ - 1}});
}

void MessagesReply::add(const char* type, const char* member, std::string_view piece) {
  send("content_block_delta",
       {{"index", blocks_ - 1}, {"delta", {{"type", type}, {member, piece}}}});
}

void MessagesReply::write_thinking(Choice& /*choice*/, std::string_view piece) {
  open("thinking", {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
  add("thinking_delta", "thinking", piece);
}

void MessagesReply::write_text(Choice& /*choice*/, const std::string& text,
                               std::span<const TextToken> /*tokens*/) {
  open("text", {{"type", "text"}, {"text", ""}});
  add("text_delta", "text", text);
}

void MessagesReply::write_call(Choice& /*choice*/, const ToolCallPiece& piece) {
  if (!piece.name.empty())
    return open("tool_use", {{"type", "tool_use"},
                             {"id", tool_use_id(piece.id)},
                             {"name", piece.name},
                             {"input", Json::object()}});
  has_input_ = true;
  add("input_json_delta", "partial_json", piece.arguments);
}

void MessagesReply::end_stream() {
  close();
  const auto [reason, sequence] = stop();
  send("message_delta", {{"delta", {{"stop_reason", reason}, {"stop_sequence", sequence}}},
                         {"usage", usage_of(usage())}});
  send("message_stop");
}

// A call that the end has cut is left out.
std::string MessagesReply::whole() {
  const Choice& choice = choices_.front();
  const GenerateResult& result = choice.result;
  Json json = message(), content = Json::array();
  if (!result.reasoning.empty())
    content.push_back({{"type", "thinking"}, {"thinking", result.reasoning}, {"signature", ""}});
  if (!result.text.empty()) content.push_back({{"type", "text"}, {"text", result.text}});
  const std::size_t calls = result.tool_calls.size() - (choice.cut_call ? 1 : 0);
  for (std::size_t i = 0; i < calls; ++i) {
    const ToolCall& call = result.tool_calls[i];
    Json input = try_json(call.arguments);
    if (!input.is_object()) input = Json::object();
    content.push_back({{"type", "tool_use"},
                       {"id", tool_use_id(call.id)},
                       {"name", call.name},
                       {"input", std::move(input)}});
  }
  json["content"] = std::move(content);
  std::tie(json["stop_reason"], json["stop_sequence"]) = stop();
  json["usage"] = usage_of(usage());
  return json_text(json);
}

Json MessagesReply::message() const {
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model_.id},
          {"content", Json::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", nullptr},
          {"seed", request_.seed()}};
}

Json MessagesReply::usage_of(const tools::AnswerUsage& used) const {
  return {{"input_tokens", used.prompt - used.cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", used.cached},
          {"output_tokens", used.completion}};
}

// The reason, and the stop sequence or null. The template's stop strings do not count.
std::pair<Json, Json> MessagesReply::stop() const {
  const GenerateResult& result = choices_.front().result;
  if (result.reason == StopReason::Length) return {"max_tokens", nullptr};
  if (result.reason == StopReason::ContextFull) return {"model_context_window_exceeded", nullptr};
  const bool own = std::ranges::count(request_.generate.stop, result.stop) != 0;
  if (result.reason == StopReason::StopString && own) return {"stop_sequence", result.stop};
  return {result.tool_calls.empty() ? "end_turn" : "tool_use", nullptr};
}

}  // namespace cria::serve
