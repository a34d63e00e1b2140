#include "tokenizer/tokens/token_roles.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_set>

#include "model/error.h"
#include "model/plural.h"
#include "tokenizer/chat/answer_format.h"
#include "tokenizer/chat/builtin_templates.h"
#include "tokenizer/chat/call_form.h"

namespace cria {

namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

/// Whether a text has one of the forms that chat formats mark turns, tools and thoughts with: <|…|>, <…>, […].
bool looks_like_marker(std::string_view text) {
  if (text.size() < 3 || text.find_first_of(kWhiteSpace) != std::string_view::npos) return false;
  return (text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']');
}

bool is_chat_marker(std::string_view text) {
  return text.size() > 4 && text.starts_with("<|") && text.ends_with("|>");
}

/// Which of the user-defined tokens that look like markers can steer a conversation: whatever a chat template
/// or a form of answers names. Others are text (HTML tags in Gemma's vocabularies), which the model has learned
/// as these tokens wherever they stand.
class SteeringTokens {
 public:
  explicit SteeringTokens(const Vocabulary& vocabulary) {
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      const std::string_view text = vocabulary.tokens[id];
      if (vocabulary.types[id] == TokenType::UserDefined && looks_like_marker(text) && is_plain(text))
        not_named_.insert(text);
    }
    if (not_named_.empty()) return;
    take_out_names(vocabulary.chat_template);
    for (const BuiltinTemplate& one : builtin_templates()) take_out_names(one.source);
    for (const std::string_view marker : AnswerFormat::known_markers()) take_out_names(marker);
    for (const CallFormFacts& form : call_forms()) {
      for (const std::string_view marker : {form.open, form.close, form.signs[0], form.signs[1]})
        take_out_names(marker);
    }
  }
  [[nodiscard]] bool contain(std::string_view text) const {
    return looks_like_marker(text) && !not_named_.contains(text);
  }

 private:
  static constexpr std::size_t kLongest = 32;

  /// No text with a bar, which templates build of parts ('[|' + role + '|]'), none that is too long to be looked
  /// for at every place.
  static bool is_plain(std::string_view text) {
    return text.size() <= kLongest && text.find('|') == std::string_view::npos &&
           text.find("｜") == std::string_view::npos && text.find(text.back()) == text.size() - 1;
  }

  void take_out_names(std::string_view source) {
    for (std::size_t at = 0; (at = source.find_first_of("<[", at)) != std::string_view::npos; ++at) {
      const std::string_view from = source.substr(at, kLongest);
      const std::size_t close = from.find(from[0] == '<' ? '>' : ']');
      if (close != std::string_view::npos) not_named_.erase(from.substr(0, close + 1));
    }
  }

  std::unordered_set<std::string_view> not_named_;
};

class Roles {
 public:
  explicit Roles(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        steering_(vocabulary),
        has_byte_type_(std::count(vocabulary.types.begin(), vocabulary.types.end(), TokenType::Byte) > 0),
        control_(vocabulary.end_of_generation.begin(), vocabulary.end_of_generation.end()) {
    for (const auto& id : {vocabulary.bos, vocabulary.eos, vocabulary.unk}) {
      if (id) control_.insert(*id);
    }
  }

  [[nodiscard]] TokenRole of(TokenId id) const {
    const std::string_view text = vocabulary_.tokens[static_cast<std::size_t>(id)];
    const TokenType type = vocabulary_.types[static_cast<std::size_t>(id)];
    if (type == TokenType::Control || type == TokenType::Unknown) return TokenRole::Control;
    if (type == TokenType::Byte) return TokenRole::Byte;
    if (type == TokenType::Unused) return TokenRole::Unused;
    // Files without types, and chat markers that are called user-defined: users could forge them.
    if (control_.contains(id) || is_chat_marker(text)) return TokenRole::Control;
    if (type == TokenType::UserDefined)
      return steering_.contain(text) ? TokenRole::Marker : TokenRole::UserDefined;
    const bool may_be_byte = !has_byte_type_ && vocabulary_.model != "gpt2";
    return may_be_byte && byte_value(text) >= 0 ? TokenRole::Byte : TokenRole::Text;
  }

 private:
  const Vocabulary& vocabulary_;
  SteeringTokens steering_;
  bool has_byte_type_;
  std::unordered_set<TokenId> control_;
};

}  // namespace

std::vector<TokenRole> token_roles(const Vocabulary& vocabulary) {
  const Roles roles(vocabulary);
  std::vector<TokenRole> out;
  out.reserve(vocabulary.tokens.size());
  const auto n = static_cast<TokenId>(vocabulary.tokens.size());
  for (TokenId id = 0; id < n; ++id) out.push_back(roles.of(id));
  return out;
}

void check_vocabulary(const Vocabulary& v) {
  const std::size_t n = v.tokens.size();
  const auto expect = [](bool holds, const std::string& message, std::string_view key) {
    if (!holds) throw Error("", message, "key tokenizer.ggml." + std::string(key));
  };
  const auto count = [&](const std::string& what, std::size_t got) {
    return "wrong number of " + what + ": expected " + std::to_string(n) + ", got " + std::to_string(got);
  };
  expect(n > 0 && n < (1U << 30), "no usable token list: " + counted(n, "token"), "tokens");
  expect(v.types.size() == n, count("token types", v.types.size()), "token_type");
  expect(v.scores.empty() || v.scores.size() == n, count("scores", v.scores.size()), "scores");
  const auto nan = std::find_if(v.scores.begin(), v.scores.end(), [](float s) { return std::isnan(s); });
  expect(nan == v.scores.end(), "a score is not a number: at index " + std::to_string(nan - v.scores.begin()),
         "scores");
  const auto in_range = [&](std::optional<TokenId> id, std::string_view key) {
    expect(!id || (*id >= 0 && static_cast<std::size_t>(*id) < n),
           "token id outside the vocabulary: expected 0 to " + std::to_string(n - 1) + ", got " +
               std::to_string(id.value_or(0)),
           key);
  };
  in_range(v.bos, "bos_token_id");
  in_range(v.eos, "eos_token_id");
  in_range(v.unk, "unknown_token_id");
  expect(!v.add_bos || v.bos, "add_bos_token is set but there is no BOS token", "bos_token_id");
  expect(!v.add_eos || v.eos, "add_eos_token is set but there is no EOS token", "eos_token_id");
}

}  // namespace cria
