#include "tokenizer/chat/call_scanner.h"

#include <algorithm>
#include <utility>

#include "tokenizer/chat/call_parser.h"
#include "tokenizer/chat/text_ends.h"

namespace cria {
CallScanner::CallScanner(CallForm form, std::string tools)
    : facts_(form == CallForm::None || form == CallForm::Channels ? nullptr : &call_form_facts(form)),
      tools_(std::move(tools)),
      state_(facts_ == nullptr         ? State::Plain
             : form == CallForm::Llama ? State::Start
                                       : State::Text) {}

void CallScanner::push(std::string_view text, const Sink& sink) {
  pending_ += text;
  while (step(sink, false)) {
  }
}

void CallScanner::finish(const Sink& sink, bool cut) {
  cut_ = cut;
  while (step(sink, true)) {
  }
}

bool CallScanner::names(std::string_view control) const {
  if (facts_ == nullptr || control.empty()) return false;
  const std::string_view markers[] = {facts_->open, facts_->close, facts_->all_open, facts_->all_close};
  const bool inside = state_ == State::Call && !facts_->is_json;  // DeepSeek's separator
  return inside ||
         std::ranges::any_of(
             markers,
             [&](std::string_view marker) { return marker.find(control) != std::string_view::npos; }) ||
         (facts_->form == CallForm::Mistral && state_ == State::Call);
}

bool CallScanner::step(const Sink& sink, bool ended) {
  switch (state_) {
    case State::Start:
      return start(ended);
    case State::Text:
      return text(sink, ended);
    case State::Call:
      return call(sink, ended);
    case State::After:
      return after(ended);
    case State::Plain:
      emit(pending_.size(), sink);
      return false;
  }
  return false;
}

bool CallScanner::start(bool ended) {
  const std::string_view rest = std::string_view(pending_).substr(spaces_at_start(pending_));
  if (rest.starts_with(facts_->open)) {
    pending_ = rest.substr(facts_->open.size());
    return true;
  }
  if (!ended && facts_->open.starts_with(rest)) return false;
  if (rest.starts_with('{'))
    begin_call(0);
  else
    state_ = State::Plain;
  return true;
}

bool CallScanner::text(const Sink& sink, bool ended) {
  if (drop_space_) pending_.erase(0, spaces_at_start(pending_));
  std::size_t first = std::string::npos;
  std::string_view found;
  for (const std::string_view marker : {facts_->open, facts_->all_open, facts_->all_close}) {
    const std::size_t at = marker.empty() ? std::string::npos : pending_.find(marker);
    if (at < first) first = at, found = marker;
  }
  if (first == std::string::npos) {
    const bool next = facts_->open.starts_with(pending_) || facts_->all_close.starts_with(pending_);
    if (cut_ && drop_space_ && next) pending_.clear();  // the beginning of a marker behind another one
    emit(pending_.size() - (ended ? 0 : held_back()), sink);
    return false;
  }
  emit(first - spaces_at_end(std::string_view(pending_).substr(0, first)), sink);
  if (found == facts_->open) {
    begin_call(pending_.find(found) + found.size());
  } else {
    pending_.erase(0, pending_.find(found) + found.size());
    drop_space_ = true;
  }
  return true;
}

// The beginning of a marker, and the white space before it.
std::size_t CallScanner::held_back() const {
  std::size_t n = 0;
  for (const std::string_view marker : {facts_->open, facts_->all_open, facts_->all_close})
    n = std::max(n, begun(pending_, marker));
  return n + spaces_at_end(std::string_view(pending_).substr(0, pending_.size() - n));
}

void CallScanner::begin_call(std::size_t marker_bytes) {
  marker_ = pending_.substr(0, marker_bytes);
  pending_.erase(0, marker_bytes);
  state_ = State::Call;
  end_ = JsonEnd();
  json_at_ = std::string::npos;
}

std::optional<std::size_t> CallScanner::call_end() {
  if (!facts_->is_json) {
    const std::size_t at = pending_.find(facts_->close);
    return at == std::string::npos ? std::nullopt : std::optional(at);
  }
  if (json_at_ == std::string::npos) {
    const std::size_t first = spaces_at_start(pending_);
    if (first == pending_.size()) return std::nullopt;
    const bool value = pending_[first] == '{' || pending_[first] == '[';
    // A name may stand before it; nothing else does.
    if (!value && facts_->form != CallForm::Mistral) return first;
    json_at_ = value ? first : pending_.find('{');
    if (json_at_ == std::string::npos) return std::nullopt;
  }
  const auto end = end_.find(std::string_view(pending_).substr(json_at_));
  return end ? std::optional(json_at_ + *end) : std::nullopt;
}

bool CallScanner::call(const Sink& sink, bool ended) {
  const auto end = call_end();
  if (!end && !ended) return false;
  if (!end && cut_ && !marker_.empty()) {
    pending_.clear();
    return false;
  }
  const std::vector<ToolCall> calls =
      end ? parse_calls(facts_->form, std::string_view(pending_).substr(0, *end), tools_)
          : std::vector<ToolCall>();
  if (calls.empty()) {
    pending_.insert(0, marker_);
    drop_space_ = false;
    emit(facts_->form == CallForm::Llama ? 0 : marker_.size(), sink);
    state_ = facts_->form == CallForm::Llama ? State::Plain : State::Text;
    return true;
  }
  for (const ToolCall& one : calls) sink.call(one);
  pending_.erase(0, *end);
  state_ = State::After;
  return true;
}

bool CallScanner::after(bool ended) {
  drop_space_ = true;
  const std::string_view separator = facts_->form == CallForm::Llama ? ";" : facts_->close;
  const std::string_view rest = std::string_view(pending_).substr(spaces_at_start(pending_));
  if (!separator.empty() && rest.starts_with(separator)) {
    pending_ = rest.substr(separator.size());
    if (facts_->form != CallForm::Llama) state_ = State::Text;
    return true;
  }
  const bool begun = (rest.empty() || separator.starts_with(rest)) && !separator.empty();
  if (begun && cut_) pending_.clear();
  if (begun && (cut_ || !ended)) return false;
  if (facts_->form == CallForm::Llama) {
    pending_ = rest;
    if (pending_.starts_with('{'))
      begin_call(0);
    else
      state_ = State::Plain;
    return true;
  }
  state_ = State::Text;
  return true;
}

void CallScanner::emit(std::size_t bytes, const Sink& sink) {
  if (bytes == 0) return;
  drop_space_ = false;
  const std::string shown = pending_.substr(0, bytes);
  pending_.erase(0, bytes);
  sink.text(shown);
}

}  // namespace cria
