#include "tools/serve/api/answer_tokens.h"

#include <algorithm>
#include <utility>

#include "tokenizer/chat/partial_marker.h"
#include "tools/report/answer.h"

namespace cria::serve {
namespace {

/// Returns a token as text; invalid UTF-8 becomes "bytes:\xe6\xb0", as in OpenAI's answers.
std::string token_name(const std::string& bytes) {
  const std::string strict = Json(bytes).dump(-1, ' ', false, Json::error_handler_t::ignore);
  const std::string lax = Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (strict == lax) return bytes;
  std::string name = "bytes:";
  for (const char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    name += {'\\', 'x', kDigits[value >> 4U], kDigits[value & 15U]};
  }
  return name;
}

std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

// Tokenizers put a space before a text, also where one restarts. It is not part of the answer.
void AnswerTokens::add(TokenLogprobs token) {
  std::string text = tokenizer_.piece(token.id);
  const bool restarts = tokenizer_.dummy_space_after(token.id);
  if (restarted_ && !restarts && text.starts_with(' ')) text.erase(0, 1);
  restarted_ = restarts;
  if (!text.empty()) tokens_.push_back({std::move(text), std::move(token)});
}

void AnswerTokens::clear() {
  tokens_.clear();
  begin_ = 0;
  begun_ = false;
}

void AnswerTokens::drop_space() {
  while (!tokens_.empty()) {
    std::string& text = tokens_.front().text;
    text.erase(0, spaces_at_start(text));
    if (!text.empty()) return;
    tokens_.pop_front();
  }
}

std::vector<TextToken> AnswerTokens::take(std::size_t bytes, std::string_view text) {
  if (!text.empty() && !std::exchange(begun_, true) && spaces_at_start(text) == 0) drop_space();
  std::vector<TextToken> out;
  while (!tokens_.empty() && begin_ < bytes) {
    begin_ += tokens_.front().text.size();
    out.push_back(std::move(tokens_.front()));
    tokens_.pop_front();
  }
  return out;
}

Json chat_logprobs(const Tokenizer& tokenizer, std::span<const TextToken> tokens) {
  Json content = Json::array();
  for (const TextToken& token : tokens) {
    const TokenLogprobs logprobs = token.logprobs.value_or(TokenLogprobs{});
    Json entry = tools::token_logprobs_json(tokenizer, logprobs);
    if (token.text != tokenizer.piece(logprobs.id)) {
      entry["token"] = token.text;
      entry["bytes"] = std::vector<unsigned char>(token.text.begin(), token.text.end());
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(const Tokenizer& tokenizer, std::span<const TextToken> tokens,
                         std::size_t& offset) {
  Json names = Json::array(), logprobs = names, tops = names, offsets = names;
  for (const TextToken& token : tokens) {
    names.push_back(token_name(token.text));
    offsets.push_back(offset);
    offset += characters(token.text);
    if (!token.logprobs) {
      logprobs.push_back(nullptr);
      tops.push_back(nullptr);
      continue;
    }
    logprobs.push_back(tools::finite_logprob(token.logprobs->logprob));
    Json top = Json::object();
    for (const auto& [id, logprob] : token.logprobs->top)
      top.emplace(token_name(tokenizer.piece(id, true)), tools::finite_logprob(logprob));
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(names)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace cria::serve
