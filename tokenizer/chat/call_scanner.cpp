#include "tokenizer/chat/call_scanner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizer/chat/call_parser.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {
namespace {

/// About so many bytes of the text, at least one: no character is cut.
std::size_t whole_characters(std::string_view text, std::size_t about) {
  const auto continues = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  std::size_t n = std::min(about, text.size());
  while (n < text.size() && continues(n)) ++n;
  return n;
}

}  // namespace

CallScanner::CallScanner(CallForm form, std::string tools)
    : facts_(form == CallForm::None || form == CallForm::Channels ? nullptr
                                                                  : &call_form_facts(form)),
      tools_(std::move(tools)),
      state_(facts_ == nullptr         ? State::Plain
             : form == CallForm::Llama ? State::Start
                                       : State::Text) {}

void CallScanner::push(std::string_view text, const Sink& sink) {
  constexpr std::size_t kPiece = 1024;  // each step looks through what is pending
  while (!text.empty()) {
    const std::size_t n = whole_characters(text, kPiece);
    pending_ += text.substr(0, n);
    text.remove_prefix(n);
    while (step(sink, false)) {
    }
  }
}

void CallScanner::finish(const Sink& sink, bool cut) {
  cut_ = cut;
  while (step(sink, true)) {
  }
}

bool CallScanner::names(std::string_view control) const {
  if (facts_ == nullptr || control.empty()) return false;
  const std::string_view markers[] = {facts_->open, facts_->close, facts_->all_open,
                                      facts_->all_close};
  const bool inside = state_ == State::Call && !facts_->is_json;  // DeepSeek's separator
  return inside ||
         std::ranges::any_of(markers,
                             [&](std::string_view marker) {
                               return marker.find(control) != std::string_view::npos;
                             }) ||
         (facts_->form == CallForm::Mistral && state_ == State::Call);
}

bool CallScanner::step(const Sink& sink, bool ended) {
  switch (state_) {
    case State::Start:
      return start(ended);
    case State::Text:
      return text(sink, ended);
    case State::Around:
      return around(sink, ended);
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
  if (drop_space_) {
    pending_.erase(0, spaces_at_start(pending_));
    if (!facts_->all_close.empty() && pending_.starts_with(facts_->all_close)) {
      pending_.erase(0, facts_->all_close.size());
      return true;
    }
  }
  const std::size_t open = pending_.find(facts_->open);
  const std::size_t all_open =
      facts_->all_open.empty() ? std::string::npos : pending_.find(facts_->all_open);
  const std::size_t first = std::min(open, all_open);
  if (first == std::string::npos) {
    const bool next =
        std::ranges::any_of(std::array{facts_->open, facts_->all_open, facts_->all_close},
                            [&](std::string_view marker) { return marker.starts_with(pending_); });
    if (cut_ && drop_space_ && next)
      pending_.clear();  // the beginning of a marker behind another one
    emit(pending_.size() - (ended ? 0 : held_back()), sink);
    return false;
  }
  const std::size_t spaces = spaces_at_end(std::string_view(pending_).substr(0, first));
  emit(first - spaces, sink);
  marker_.clear();
  if (open < all_open) {
    begin_call(spaces + facts_->open.size());
  } else {
    take_marker(spaces + facts_->all_open.size());
    state_ = State::Around;
  }
  return true;
}

// It is a marker only where a call's own follows.
bool CallScanner::around(const Sink& sink, bool ended) {
  take_marker(spaces_at_start(pending_));
  if (pending_.starts_with(facts_->open)) {
    begin_call(facts_->open.size());
    return true;
  }
  const bool begun = facts_->open.starts_with(pending_);
  if (begun && cut_) pending_.clear();
  if (begun && (cut_ || !ended)) return false;
  pending_.insert(0, marker_);
  emit(marker_.size() - spaces_at_end(marker_), sink);  // the next marker's white space may follow
  state_ = State::Text;
  return true;
}

// The beginning of a marker, and the white space before it.
std::size_t CallScanner::held_back() const {
  if (drop_space_ && facts_->all_close.starts_with(pending_)) return pending_.size();
  const std::size_t n = std::max(begun(pending_, facts_->open), begun(pending_, facts_->all_open));
  return n + spaces_at_end(std::string_view(pending_).substr(0, pending_.size() - n));
}

void CallScanner::take_marker(std::size_t bytes) {
  marker_.append(pending_, 0, bytes);
  pending_.erase(0, bytes);
}

void CallScanner::begin_call(std::size_t marker_bytes) {
  take_marker(marker_bytes);
  state_ = State::Call;
  end_ = JsonEnd();
  json_at_ = std::string::npos;
  seen_ = 0;
  in_argument_ = false;
}

std::optional<std::size_t> CallScanner::marked_end() {
  for (;; ++seen_) {
    seen_ = std::min(pending_.find('<', seen_), pending_.size());
    const std::string_view rest = std::string_view(pending_).substr(seen_);
    if (!in_argument_ && rest.starts_with(facts_->close)) return seen_;
    const std::string_view turn = in_argument_ ? facts_->argument_close : facts_->argument_open;
    if (!turn.empty() && rest.starts_with(turn))
      in_argument_ = !in_argument_;
    else if (turn.starts_with(rest) || (!in_argument_ && facts_->close.starts_with(rest)))
      return std::nullopt;  // a marker has begun, or will
  }
}

std::optional<std::size_t> CallScanner::json_end() {
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
  const auto end = facts_->is_json ? json_end() : marked_end();
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
    // Without an end of this call, none behind it has one, but in an argument, where it is text.
    const bool plain = facts_->form == CallForm::Llama || (!end && !facts_->is_json);
    state_ = plain ? State::Plain : State::Text;
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
