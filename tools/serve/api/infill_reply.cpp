#include "tools/serve/api/replies.h"

#include <utility>

namespace cria::serve {
namespace {

std::string_view stop_type(StopReason reason) {
  if (reason == StopReason::EndOfGeneration) return "eos";
  return reason == StopReason::StopString ? "word" : "limit";
}

/// Returns the members with these names; a '/' separates the names of nested ones.
Json chosen(const Json& all, const std::vector<std::string>& names) {
  Json out = Json::object();
  for (const std::string& name : names) {
    const Json* at = &all;
    std::string_view left = name;
    while (at != nullptr && !left.empty()) {
      const std::size_t end = std::min(left.find('/'), left.size());
      const auto found = at->is_object() ? at->find(left.substr(0, end)) : at->end();
      at = found == at->end() ? nullptr : &*found;
      left.remove_prefix(std::min(end + 1, left.size()));
    }
    if (at != nullptr && !name.empty()) out[name] = *at;
  }
  return out;
}

}  // namespace

void LineLimit::push_indentation(char c, std::string& out) {
  const bool blank = c == ' ' || c == '\t';
  column_ = c == '\n' ? 0 : column_ + (blank ? 1 : 0);
  held_ += c;
  if (column_ >= indent_)
    out += finish();
  else
    ended_ = !blank && c != '\n' && c != '\r';
}

std::string LineLimit::push(std::string_view piece, bool late) {
  std::string out;
  for (const char c : piece) {
    ended_ = ended_ || (late && c == '\n');
    if (!ended_ && !held_.empty()) {
      push_indentation(c, out);
    } else if (!ended_ && c == '\n' && indent_ > 0) {
      held_ = c;
      column_ = 0;
    } else if (!ended_) {
      out += c;
    }
    if (!ended_) continue;
    held_.clear();
    break;
  }
  return out;
}

InfillReply::InfillReply(ReplyParts parts, InfillForm form)
    : Reply(std::move(parts)), form_(std::move(form)), limit_(form_.indent) {}

bool InfillReply::take_piece(Choice& choice, std::string& piece) {
  const bool late = form_.time.count() > 0 && choice.first_token &&
                    Clock::now() - *choice.first_token > form_.time;
  piece = limit_.push(piece, late);
  if (!request_.stream) text_ += piece;
  return !limit_.ended();
}

void InfillReply::write_text(Choice& choice, const std::string& text,
                             std::span<const TextToken> /*tokens*/) {
  exchange_->event(json_text(
      {{"index", choice.index}, {"content", text}, {"tokens", Json::array()}, {"stop", false}}));
}

void InfillReply::end_choice(Choice& choice) {
  if (const std::string rest = limit_.finish(); !rest.empty()) write_text(choice, rest, {});
}

void InfillReply::end_stream() { exchange_->event(json_text(result(""))); }

std::string InfillReply::whole() { return json_text(result(text_ + limit_.finish())); }

Json InfillReply::result(const std::string& content) const {
  const Choice& choice = choices_.front();
  const tools::AnswerUsage used = usage();
  const Json all = {{"index", choice.index},
                    {"content", content},
                    {"tokens", Json::array()},
                    {"id_slot", form_.id_slot},
                    {"stop", true},
                    {"model", model_.id},
                    {"tokens_predicted", used.completion},
                    {"tokens_evaluated", used.prompt},
                    {"tokens_cached", used.cached},
                    {"truncated", choice.prompt.cut},
                    {"stop_type", stop_type(choice.result.reason)},
                    {"stopping_word", choice.result.stop},
                    {"timings", timings(choice)}};
  return form_.fields.empty() ? all : chosen(all, form_.fields);
}

}  // namespace cria::serve
