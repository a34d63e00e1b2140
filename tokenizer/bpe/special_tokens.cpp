#include "tokenizer/bpe/special_tokens.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "model/error.h"
#include "model/file/utf8.h"
#include "model/plural.h"

namespace cria {

namespace {

/// True for texts of the forms that mark turns, tools and thinking: <|…|>, <…>, […].
bool looks_like_marker(std::string_view text) {
  if (text.size() < 3 || text.find_first_of(" \t\r\n") != std::string_view::npos) return false;
  return (text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']');
}

bool is_chat_marker(std::string_view text) {
  return text.size() > 4 && text.starts_with("<|") && text.ends_with("|>");
}

/// True for HTML tags of documents. Gemma has such tokens and learned them anywhere in text; no
/// chat format uses them as markers.
bool is_html_tag(std::string_view text) {
  static const std::unordered_set<std::string_view> kElements = {
      "a",      "b",   "blockquote", "br",  "caption",    "code",   "dd",    "del",   "details",
      "div",    "dl",  "dt",         "em",  "figcaption", "figure", "h1",    "h2",    "h3",
      "h4",     "h5",  "h6",         "hr",  "i",          "img",    "ins",   "kbd",   "li",
      "mark",   "ol",  "p",          "pre", "q",          "s",      "small", "span",  "strike",
      "strong", "sub", "summary",    "sup", "table",      "tbody",  "td",    "tfoot", "th",
      "thead",  "tr",  "tt",         "u",   "ul"};
  if (text.size() < 3 || text.front() != '<' || text.back() != '>') return false;
  text = text.substr(1, text.size() - 2);
  if (text.front() == '/') text.remove_prefix(1);
  return kElements.contains(text);
}

class Roles {
 public:
  explicit Roles(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        has_byte_type_(
            std::count(vocabulary.types.begin(), vocabulary.types.end(), TokenType::Byte) > 0),
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
      return is_marker(text) ? TokenRole::Marker : TokenRole::UserDefined;
    const bool may_be_byte = !has_byte_type_ && vocabulary_.model != "gpt2";
    return may_be_byte && byte_value(text) >= 0 ? TokenRole::Byte : TokenRole::Text;
  }

 private:
  /// One that a chat template could mark turns with, and a user forge.
  [[nodiscard]] bool is_marker(std::string_view text) const {
    if (is_html_tag(text)) return vocabulary_.chat_template.find(text) != std::string::npos;
    return looks_like_marker(text);
  }

  const Vocabulary& vocabulary_;
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
    return "wrong number of " + what + ": expected " + std::to_string(n) + ", got " +
           std::to_string(got);
  };
  expect(n > 0 && n < (1U << 30), "no usable token list: " + counted(n, "token"), "tokens");
  expect(v.types.size() == n, count("token types", v.types.size()), "token_type");
  expect(v.scores.empty() || v.scores.size() == n, count("scores", v.scores.size()), "scores");
  const auto nan =
      std::find_if(v.scores.begin(), v.scores.end(), [](float s) { return std::isnan(s); });
  expect(nan == v.scores.end(),
         "a score is not a number: at index " + std::to_string(nan - v.scores.begin()), "scores");
  const auto in_range = [&](std::optional<TokenId> id, std::string_view key) {
    expect(!id || (*id >= 0 && static_cast<std::size_t>(*id) < n),
           "token id outside the vocabulary: expected 0 to " + std::to_string(n - 1) + ", got " +
               std::to_string(id.value_or(0)),
           key);
  };
  in_range(v.bos, "bos_token_id");
  in_range(v.eos, "eos_token_id");
  in_range(v.unk, "unknown_token_id");
  expect(!v.add_bos || v.bos, "add_bos_token is set, but the vocabulary lacks a BOS token",
         "bos_token_id");
  expect(!v.add_eos || v.eos, "add_eos_token is set, but the vocabulary lacks an EOS token",
         "eos_token_id");
}

namespace {

constexpr std::int16_t kNoByte = -1;
constexpr std::size_t kCharacters = 0x144;  // the last one stands for the soft hyphen, 0xAD

constexpr bool is_itself(std::size_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<std::int16_t, kCharacters> kByteOfCharacter = [] {
  std::array<std::int16_t, kCharacters> bytes{};
  bytes.fill(kNoByte);
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte)
    bytes[is_itself(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  return bytes;
}();

}  // namespace

void append_bytes_of_byte_text(std::string_view text, std::string& bytes) {
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    if (c.valid && c.code_point < kCharacters && kByteOfCharacter[c.code_point] != kNoByte)
      bytes.push_back(static_cast<char>(kByteOfCharacter[c.code_point]));
    else
      bytes.append(text.substr(0, c.bytes));
    text.remove_prefix(c.bytes);
  }
}

std::string bytes_of_byte_text(std::string_view text) {
  std::string bytes;
  append_bytes_of_byte_text(text, bytes);
  return bytes;
}

SpecialTokens::SpecialTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.text, a.control) < std::tie(b.text, b.control);
  });
  const auto same = [](const Entry& a, const Entry& b) {
    return a.text == b.text && a.control == b.control;
  };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  for (const Entry& entry : entries_) {
    if (entry.text.empty()) continue;
    for (const std::size_t control : {0U, 1U}) {
      if (entry.control && control == 0) continue;
      begins_[control][static_cast<unsigned char>(entry.text[0])] = any_[control] = true;
    }
  }
}

std::size_t SpecialTokens::find_candidate(std::string_view text, std::size_t from,
                                          bool control) const {
  if (!any_[control ? 1 : 0]) return text.size();
  const auto& begins = begins_[control ? 1 : 0];
  while (from < text.size() && !begins[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

// Narrows the sorted entries to those that share one more byte with the text. The cost is the
// length of the match: vocabularies have thousands of <unused123>, and '<' is frequent in text.
std::optional<SpecialTokens::Match> SpecialTokens::match(std::string_view text,
                                                         bool control) const {
  std::optional<Match> longest;
  auto low = entries_.begin(), high = entries_.end();
  for (std::size_t i = 0; i < text.size() && low != high; ++i) {
    const auto byte_at = [i](const Entry& entry) {
      return i < entry.text.size() ? static_cast<unsigned char>(entry.text[i]) : -1;
    };
    const int byte = static_cast<unsigned char>(text[i]);
    low =
        std::partition_point(low, high, [&](const Entry& entry) { return byte_at(entry) < byte; });
    high =
        std::partition_point(low, high, [&](const Entry& entry) { return byte_at(entry) == byte; });
    const auto usable = std::find_if(low, high, [&](const Entry& entry) {
      return entry.text.size() != i + 1 || control || !entry.control;
    });
    if (usable != high && usable->text.size() == i + 1)
      longest = Match{usable->id, i + 1, usable->strip_left, usable->strip_right};
  }
  return longest;
}

}  // namespace cria
