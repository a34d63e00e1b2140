#include "tokenizer/chat/call_scanner.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tokenizer/chat/call_parser.h"
#include "tokenizer/chat/partial_marker.h"

namespace cria {
namespace {

/// Returns about `about` bytes of the text, at least one, without splitting a character.
std::size_t whole_characters(std::string_view text, std::size_t about) {
  const auto continues = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  std::size_t n = std::min(about, text.size());
  while (n < text.size() && continues(n)) ++n;
  return n;
}

/// True if the text begins with a marker, which is not empty.
bool at_marker(std::string_view text, std::string_view marker) {
  return !marker.empty() && text.starts_with(marker);
}

/// True if a marker starts with the text.
bool may_be(std::string_view text, std::string_view marker) {
  return !marker.empty() && marker.starts_with(text);
}

std::size_t find_marker(std::string_view text, std::string_view marker) {
  return marker.empty() ? std::string_view::npos : text.find(marker);
}

}  // namespace

CallScanner::CallScanner(CallForm form, std::string tools)
    : format_(call_format(form)), tools_(std::move(tools)), state_(State::Text) {
  if (format_ != nullptr && format_->body == CallBody::Channel) format_ = nullptr;
  if (format_ == nullptr)
    state_ = State::Plain;
  else if (format_->unmarked)
    state_ = State::Start;
}

void CallScanner::push(std::string_view text, const Sink& sink) {
  constexpr std::size_t kPiece = 1024;  // each step searches all pending text
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

bool CallScanner::has_json() const {
  return format_->body == CallBody::JsonObject || format_->body == CallBody::KeyedJson ||
         format_->body == CallBody::Named;
}

bool CallScanner::unmarked_json() const {
  return format_->unmarked && format_->body == CallBody::JsonObject;
}

bool CallScanner::names(std::string_view control) const {
  if (format_ == nullptr || control.empty()) return false;
  // Within a call, a control token may be part of any marker.
  if (state_ == State::Call && (!has_json() || !format_->name_close.empty())) return true;
  const std::string_view markers[] = {format_->open, format_->other_open, format_->close,
                                      format_->section_open, format_->section_close};
  return std::ranges::any_of(markers, [control](std::string_view marker) {
    return marker.find(control) != std::string_view::npos || find_marker(control, marker) == 0;
  });
}

bool CallScanner::step(const Sink& sink, bool ended) {
  switch (state_) {
    case State::Start:
      return start(ended);
    case State::Text:
      return text(sink, ended);
    case State::Section:
      return section(sink, ended);
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
  for (const std::string_view open : {format_->open, format_->other_open}) {
    if (at_marker(rest, open)) {
      pending_ = rest.substr(open.size());
      return true;
    }
    if (!ended && may_be(rest, open)) return false;
  }
  if (rest.starts_with('{') || rest.starts_with('[') || format_->body == CallBody::Named)
    begin_call(0);
  else
    state_ = State::Plain;
  return !pending_.empty();
}

bool CallScanner::text(const Sink& sink, bool ended) {
  if (drop_space_) {
    pending_.erase(0, spaces_at_start(pending_));
    if (at_marker(pending_, format_->section_close)) {
      pending_.erase(0, format_->section_close.size());
      return true;
    }
  }
  std::size_t first = std::string::npos;
  std::string_view found;
  for (const std::string_view marker :
       {format_->open, format_->other_open, format_->section_open}) {
    const std::size_t at = find_marker(pending_, marker);
    if (at >= first) continue;
    first = at;
    found = marker;
  }
  if (first == std::string::npos) {
    const bool next = std::ranges::any_of(
        std::array{format_->open, format_->section_open, format_->section_close},
        [&](std::string_view marker) { return marker.starts_with(pending_); });
    if (cut_ && drop_space_ && next) pending_.clear();  // a truncated marker
    emit(pending_.size() - (ended ? 0 : held_back()), sink);
    return false;
  }
  const std::size_t spaces = spaces_at_end(std::string_view(pending_).substr(0, first));
  emit(first - spaces, sink);
  marker_.clear();
  if (found != format_->section_open) {
    begin_call(spaces + found.size());
  } else {
    take_marker(spaces + found.size());
    state_ = State::Section;
  }
  return true;
}

// The section's marker counts only if a call follows.
bool CallScanner::section(const Sink& sink, bool ended) {
  take_marker(spaces_at_start(pending_));
  if (pending_.starts_with(format_->open)) {
    begin_call(format_->open.size());
    return true;
  }
  const bool begun = format_->open.starts_with(pending_);
  if (begun && cut_) pending_.clear();
  if (begun && (cut_ || !ended)) return false;
  pending_.insert(0, marker_);
  emit(marker_.size() - spaces_at_end(marker_), sink);  // white space may belong to the next marker
  state_ = State::Text;
  return true;
}

// Returns the bytes at the end that may begin a marker, with the white space before them.
std::size_t CallScanner::held_back() const {
  if (drop_space_ && format_->section_close.starts_with(pending_)) return pending_.size();
  std::size_t n = 0;
  for (const std::string_view marker : {format_->open, format_->other_open, format_->section_open})
    n = std::max(n, begun(pending_, marker));
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
  stream_ = CallStream();
  json_at_ = std::string::npos;
  seen_ = 0;
  in_argument_ = false;
  fenced_ = false;
}

// A closing marker inside of an argument is text. If it stands on a line of its own, and the
// section or the answer ends after it, the tag of the argument was forgotten. If the closing marker
// itself was forgotten, another call or the end of the section ends the call.
std::optional<std::size_t> CallScanner::marked_end(bool ended) {
  const std::string_view text = pending_;
  for (;; ++seen_) {
    seen_ = std::min(text.find('<', seen_), text.size());
    const std::string_view rest = text.substr(seen_);
    if (rest.empty()) return std::nullopt;
    if (!in_argument_) {
      if (at_marker(rest, format_->close) || at_marker(rest, format_->section_close) ||
          at_marker(rest, format_->open))
        return seen_;
      if (may_be(rest, format_->close) || may_be(rest, format_->section_close) ||
          may_be(rest, format_->open) || may_be(rest, format_->key_open))
        return std::nullopt;
      if (at_marker(rest, format_->key_open)) in_argument_ = true;
      continue;
    }
    if (at_marker(rest, format_->value_close)) {
      in_argument_ = false;
    } else if (may_be(rest, format_->value_close)) {
      return std::nullopt;
    } else if (seen_ > 0 && text[seen_ - 1] == '\n') {
      if (may_be(rest, format_->close) && rest.size() < format_->close.size()) return std::nullopt;
      if (!at_marker(rest, format_->close)) continue;
      const std::string_view next =
          rest.substr(format_->close.size() + spaces_at_start(rest.substr(format_->close.size())));
      if (at_marker(next, format_->section_close) || (next.empty() && ended)) return seen_;
      if (next.empty() || may_be(next, format_->section_close)) return std::nullopt;
    }
  }
}

std::optional<std::size_t> CallScanner::json_end() {
  if (json_at_ == std::string::npos) {
    const std::size_t first = spaces_at_start(pending_);
    if (first == pending_.size()) return std::nullopt;
    const bool value = pending_[first] == '{' || pending_[first] == '[';
    if (format_->body != CallBody::Named && (value || format_->name_close.empty())) {
      if (!value) return first;  // not a call
      json_at_ = first;
    } else {
      const std::size_t name = pending_.find(format_->name_close);
      if (name == std::string::npos) return std::nullopt;
      fenced_ = without_spaces(std::string_view(pending_).substr(0, name)) == "function";
      const std::size_t after = name + format_->name_close.size();
      const std::size_t json =
          fenced_ ? pending_.find('{', after) : pending_.find_first_not_of(kTextSpace, after);
      if (json == std::string::npos) return std::nullopt;
      if (pending_[json] != '{') return json;  // not a call
      json_at_ = json;
    }
  }
  const auto end = end_.find(std::string_view(pending_).substr(json_at_));
  return end ? std::optional(json_at_ + *end) : std::nullopt;
}

std::size_t CallScanner::end_of_rest() const {
  const std::string_view text = pending_;
  if (has_json()) {
    const std::size_t close = find_marker(text, format_->close);
    return std::min(close, text.size());
  }
  const std::string_view rest = text.substr(0, text.size() - spaces_at_end(text));
  const bool complete = format_->value_close.empty() || rest.ends_with(format_->value_close);
  return complete && !in_argument_ ? text.size() : 0;
}

// "all" in place of a tool's name begins text.
bool CallScanner::plain_text(bool ended) {
  if (format_->unmarked_text.empty()) return false;
  const std::string name = std::string(format_->unmarked_text) + std::string(format_->name_close);
  if (!pending_.starts_with(name)) return !ended && may_be(pending_, name);
  pending_.erase(0, name.size());
  state_ = State::Text;
  drop_space_ = false;
  return true;
}

bool CallScanner::call(const Sink& sink, bool ended) {
  if (plain_text(ended)) return state_ == State::Text;
  const auto end = has_json() ? json_end() : marked_end(ended);
  stream_.read(*format_, std::string_view(pending_).substr(0, end.value_or(pending_.size())),
               tools_, sink.piece);
  if (!end && !ended) return false;
  if (!end && cut_) {
    const std::vector<ToolCall> cut = stream_.cut(*format_, pending_, sink.piece);
    if (sink.cut_call) std::ranges::for_each(cut, sink.cut_call);
    if (!cut.empty() || !marker_.empty()) {
      pending_.clear();
      return false;
    }
  }
  const std::size_t size = end ? *end : end_of_rest();
  std::vector<ToolCall> calls;
  if (size != 0) calls = parse_calls(*format_, std::string_view(pending_).substr(0, size), tools_);
  calls = stream_.finish(std::move(calls), sink.piece);
  if (calls.empty()) {
    pending_.insert(0, marker_);
    drop_space_ = false;
    emit(unmarked_json() ? 0 : marker_.size(), sink);
    marker_.clear();
    // If this call has no end, later ones have none either: markers in arguments are text.
    const bool plain = unmarked_json() || (!end && !has_json());
    state_ = plain ? State::Plain : State::Text;
    return true;
  }
  for (const ToolCall& one : calls) sink.call(one);
  pending_.erase(0, size == 0 ? std::string::npos : size);
  state_ = State::After;
  return true;
}

bool CallScanner::after(bool ended) {
  drop_space_ = true;
  const std::string_view rest = std::string_view(pending_).substr(spaces_at_start(pending_));
  const std::string_view separator = unmarked_json() ? ";" : fenced_ ? "```" : "";
  for (const std::string_view marker : {separator, format_->close}) {
    if (at_marker(rest, marker)) {
      pending_ = rest.substr(marker.size());
      if (marker == format_->close && !unmarked_json()) state_ = State::Text;
      return true;
    }
  }
  const bool begun = may_be(rest, separator) || may_be(rest, format_->close);
  if (begun && cut_) pending_.clear();
  if (begun && (cut_ || !ended)) return false;
  if (!unmarked_json()) {
    state_ = State::Text;
    return true;
  }
  pending_ = rest;
  if (pending_.starts_with('{'))
    begin_call(0);
  else
    state_ = State::Plain;
  return true;
}

void CallScanner::emit(std::size_t bytes, const Sink& sink) {
  if (bytes == 0) return;
  drop_space_ = false;
  const std::string shown = pending_.substr(0, bytes);
  pending_.erase(0, bytes);
  sink.text(AnswerPart::Answer, shown);
}

}  // namespace cria
