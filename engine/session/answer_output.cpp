#include "engine/session/answer_output.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/constrain/token_masks.h"

namespace cria {

StopScanner::StopScanner(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
  std::ranges::sort(stops_, std::greater<>(), &std::string::size);
}

std::string StopScanner::push(std::string_view piece) {
  if (!found_.empty()) return {};
  pending_ += piece;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = pending_.find(stop);
    if (at >= first) continue;
    first = at;
    found_ = stop;
  }
  std::string clear = pending_.substr(0, found_.empty() ? pending_.size() - held_back() : first);
  pending_.erase(0, found_.empty() ? clear.size() : std::string::npos);
  return clear;
}

std::string StopScanner::finish() { return std::exchange(pending_, {}); }

// Number of bytes at the end of pending_ that may begin a stop string.
std::size_t StopScanner::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, pending_.size()); n > longest; --n) {
      if (pending_.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

AnswerOutput::AnswerOutput(const Tokenizer& tokenizer, const GenerateOptions& options,
                           const TextSink& sink)
    : tokenizer_(tokenizer),
      options_(options),
      sink_(sink),
      reader_(tokenizer, options.format, options.thinking_opened),
      scanner_(options.constraint &&
                       options.constraint->state().calls == Constraint::State::Calls::OrFormat
                   ? std::vector<std::string>()
                   : options.stop),
      only_calls_(options.constraint &&
                  options.constraint->state().calls == Constraint::State::Calls::Only) {}

void AnswerOutput::begin_verbatim() {
  reader_.finish(reader_sink());
  show(scanner_.finish(), text_, sink_);
  verbatim_.emplace(tokenizer_, true);
}

void AnswerOutput::push(TokenId token) {
  if (verbatim_) {
    in_answer_ = true;
    ++answer_tokens_;
    return show(verbatim_->push(token), text_, sink_);
  }
  const bool thought = reader_.thinking();
  reader_.push(token, reader_sink());
  const bool thinks = reader_.thinking();
  if (thinks && reasoning_tokens_ == 0 && text_.empty()) not_answer_ = answer_tokens_;
  reasoning_tokens_ += thought || thinks ? 1 : 0;
  in_answer_ = !thought && !thinks && reader_.answering();
  answer_tokens_ += in_answer_ ? 1 : 0;
}

void AnswerOutput::finish(GenerateResult& result) {
  if (verbatim_) {
    show(verbatim_->finish(), text_, sink_);
  } else if (scanner_.found().empty()) {
    cut_ = result.reason != StopReason::EndOfGeneration;
    reader_.finish(reader_sink(), cut_);
    show(scanner_.finish(), text_, sink_);
  }
  result.text = std::move(text_);
  result.reasoning = std::move(reasoning_);
  result.tool_calls = std::move(calls_);
  result.cut_calls = std::move(cut_calls_);
  result.reasoning_tokens = reasoning_tokens_;
  result.stop = scanner_.found();
  const auto first = result.logprobs.begin();
  if (not_answer_ <= result.logprobs.size())
    result.logprobs.erase(first, first + static_cast<std::ptrdiff_t>(not_answer_));
}

AnswerReader::Sink AnswerOutput::reader_sink() {
  return {[this](AnswerPart part, std::string_view text) { take(part, text); },
          [this](const ToolCall& call) { take(call); },
          [this](const CallPiece& piece) { take(piece); },
          [this](const ToolCall& call) { take_cut(call); }};
}

void AnswerOutput::take(ToolCall call) {
  if (!scanner_.found().empty() || refused_) return;
  call.id = tool_call_id(options_.call_key, calls_.size(), options_.format.calls);
  if (options_.on_call) options_.on_call(call);
  calls_.push_back(std::move(call));
}

// Text before a call is not continued: it holds no beginning of a stop string.
void AnswerOutput::take(const CallPiece& piece) {
  if (!scanner_.found().empty() || refused_) return;
  ToolCallPiece out;
  if (!piece.name.empty()) {
    show(scanner_.finish(), text_, sink_);
    ++begun_calls_;
    out.name = piece.name;
  }
  out.index = begun_calls_ - 1;
  if (!piece.name.empty())
    out.id = tool_call_id(options_.call_key, out.index, options_.format.calls);
  out.arguments = piece.arguments;
  if (options_.on_call_piece) options_.on_call_piece(out);
}

void AnswerOutput::take_cut(ToolCall call) {
  if (!scanner_.found().empty() || refused_) return;
  call.id =
      tool_call_id(options_.call_key, calls_.size() + cut_calls_.size(), options_.format.calls);
  cut_calls_.push_back(std::move(call));
}

void AnswerOutput::take(AnswerPart part, std::string_view text) {
  if (part == AnswerPart::Thinking) show(text, reasoning_, options_.on_thinking);
  const bool part_of_call = cut_ && only_calls_;
  if (part == AnswerPart::Answer && !part_of_call) show(scanner_.push(text), text_, sink_);
}

void AnswerOutput::show(std::string_view piece, std::string& all, const TextSink& sink) {
  if (piece.empty() || refused_) return;
  all += piece;
  if (!sink) return;
  refused_ = true;  // not called again after it throws
  refused_ = !sink(piece);
}

}  // namespace cria
