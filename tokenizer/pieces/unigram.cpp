#include <algorithm>
#include <array>
#include <cfloat>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/error.h"
#include "model/file/utf8.h"
#include "model/plural.h"
#include "tokenizer/bpe/run_tokenizer.h"

namespace cria {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr float kUnknownPenalty = 10;
constexpr double kUserDefinedPenalty = 0.1;

// SentencePiece's precompiled normalization: a trie of texts and what replaces them.

// A unit of the double array, as Darts (a library of double-array tries) stores it.
std::size_t offset_of(std::uint32_t unit) {
  return std::size_t{unit >> 10U} << ((unit & 0x200U) >> 6U);
}
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FFU; }
bool has_value(std::uint32_t unit) { return (unit & 0x100U) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFFU; }

std::uint32_t unit_at(std::string_view bytes) {
  std::uint32_t unit = 0;
  for (std::size_t i = 4; i-- > 0;) unit = unit << 8U | static_cast<unsigned char>(bytes[i]);
  return unit;
}

/// Any bytes are safe: no look-up leaves the map. They must outlive this.
class Charsmap {
 public:
  /// bytes: the trie's size as u32, a double array of u32 units, replacements that end with NUL.
  /// Empty: nothing is replaced. Throws Error if the sizes do not fit.
  explicit Charsmap(std::string_view bytes);

  struct Match {
    std::size_t bytes = 0;  ///< length in the text; 0: nothing is replaced
    std::string_view replacement;
  };
  /// The longest text of the map at the start of `text`.
  [[nodiscard]] Match longest(std::string_view text) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string_view replacements_;  ///< part of the constructor's bytes
};

Charsmap::Charsmap(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t trie = bytes.size() < 4 ? 0 : unit_at(bytes);
  if (trie == 0 || trie % 4 != 0 || trie > bytes.size() - 4)
    throw Error("",
                "bad charsmap: expected the size of a trie and its units, got " +
                    counted(bytes.size(), "byte"),
                "key tokenizer.ggml.precompiled_charsmap");
  for (std::size_t at = 4; at < 4 + trie; at += 4) units_.push_back(unit_at(bytes.substr(at)));
  replacements_ = bytes.substr(4 + trie);
}

Charsmap::Match Charsmap::longest(std::string_view text) const {
  Match match;
  if (units_.empty()) return match;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    node ^= label;
    if (node >= units_.size() || label_of(units_[node]) != label) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (node >= units_.size()) break;
    const std::size_t begin = value_of(units_[node]);
    const std::size_t end = replacements_.find('\0', begin);
    if (begin < replacements_.size() && end != std::string_view::npos)
      match = {i + 1, replacements_.substr(begin, end - begin)};
  }
  return match;
}

/// Texts of tokens in order. The tokens that a text begins with are found by narrowing a range.
class SortedTexts {
 public:
  void add(std::string_view text, TokenId id) { entries_.push_back({text, id}); }
  /// Call it after the last add(). The last of equal texts counts.
  void sort() {
    std::ranges::stable_sort(entries_, {}, &Entry::text);
    for (std::size_t i = entries_.size(); i-- > 1;)
      if (entries_[i].text == entries_[i - 1].text) entries_[i - 1].id = entries_[i].id;
    std::size_t at = 0;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      begins_[byte] = at;
      while (at < entries_.size() && static_cast<unsigned char>(entries_[at].text[0]) == byte) ++at;
    }
    begins_[256] = at;
  }
  /// f(bytes, id) for every token that the text begins with, the shortest first.
  template <class F>
  void for_each_prefix(std::string_view text, F&& f) const {
    const std::size_t first = static_cast<unsigned char>(text[0]);
    auto low = entries_.begin() + static_cast<std::ptrdiff_t>(begins_[first]),
         high = entries_.begin() + static_cast<std::ptrdiff_t>(begins_[first + 1]);
    for (std::size_t n = 1; low != high; ++n) {
      if (low->text.size() == n) f(n, low->id);
      while (low != high && low->text.size() == n) ++low;
      if (n == text.size()) return;
      const auto byte = [n](const Entry& e) { return static_cast<unsigned char>(e.text[n]); };
      const auto next = static_cast<unsigned char>(text[n]);
      low = std::lower_bound(low, high, next,
                             [&](const Entry& e, unsigned char c) { return byte(e) < c; });
      high = std::upper_bound(low, high, next,
                              [&](unsigned char c, const Entry& e) { return c < byte(e); });
    }
  }
  /// The longest one; 0: none.
  [[nodiscard]] std::size_t longest_prefix(std::string_view text) const {
    std::size_t longest = 0;
    for_each_prefix(text, [&](std::size_t n, TokenId) { longest = n; });
    return longest;
  }

 private:
  struct Entry {
    std::string_view text;
    TokenId id;
  };
  std::vector<Entry> entries_;
  std::array<std::size_t, 257> begins_{};  ///< by first byte
};

/// SentencePiece's Unigram models: the text is normalized by the model's map, and the tokens with
/// the largest sum of scores are taken. Sums are rounded to float as in the library, which is the
/// judge in the tests.
class UnigramTokenizer final : public RunTokenizer {
 public:
  explicit UnigramTokenizer(const Vocabulary& v)
      : RunTokenizer(v), charsmap_(v.precompiled_charsmap) {
    if (v.scores.empty())
      throw Error("", "a Unigram vocabulary without scores", "key tokenizer.ggml.scores");
    const auto unknown = unknown_token();
    if (!unknown)
      throw Error("", "a Unigram vocabulary without an unknown token",
                  "key tokenizer.ggml.unknown_token_id");
    unknown_ = *unknown;
    find_special_tokens([this](TokenId id) {
      return is_user_defined(id) ? std::string() : std::string(text_of(id));
    });
    byte_ids_.fill(-1);
    for (TokenId id = 0; id < static_cast<TokenId>(v.tokens.size()); ++id) add(id);
    texts_.sort();
    user_defined_.sort();
    has_bytes_ = std::ranges::find(byte_ids_, -1) == byte_ids_.end();
    if (min_score_ > max_score_) min_score_ = 0;  // no normal tokens
  }

  [[nodiscard]] std::string piece(TokenId id, bool show_special) const override {
    require_id(id);
    if (role_of(id) == TokenRole::Byte) return {static_cast<char>(byte_value(text_of(id)))};
    if (role_of(id) == TokenRole::Control)
      return show_special ? std::string(text_of(id)) : std::string();
    std::string text(text_of(id));
    for (std::size_t at; (at = text.find(kSpaceMark)) != std::string::npos;)
      text.replace(at, kSpaceMark.size(), " ");
    return text;
  }
  [[nodiscard]] bool dummy_space_after(std::optional<TokenId> previous) const override {
    if (!vocabulary().add_space_prefix) return false;
    return !previous || (is_special(role_of(*previous)) && !is_user_defined(*previous));
  }

 private:
  /// A normalized text, with the end of each byte's source in the run.
  struct Normalized {
    std::string text;
    std::vector<std::size_t> ends;
    void add(std::string_view bytes, std::size_t end) {
      text += bytes;
      ends.resize(text.size(), end);
    }
  };
  /// The best tokens up to a byte.
  struct Best {
    float score = 0;
    TokenId id = -1;
    std::size_t begin = 0;
    bool reached = false;
  };

  // Types as the model has them: its user-defined tokens count in any text.
  [[nodiscard]] TokenType type_of(TokenId id) const {
    return vocabulary().types[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] bool is_user_defined(TokenId id) const {
    return type_of(id) == TokenType::UserDefined;
  }

  void add(TokenId id) {
    const Vocabulary& v = vocabulary();
    const std::string_view text = text_of(id);
    const float score = v.scores[static_cast<std::size_t>(id)];
    if (role_of(id) == TokenRole::Byte) {
      if (const int value = byte_value(text); value >= 0)
        byte_ids_[static_cast<std::size_t>(value)] = id;
      return;
    }
    if (id == unknown_ || text.empty()) return;
    if (is_user_defined(id)) user_defined_.add(text, id);
    const bool normal = type_of(id) == TokenType::Normal;
    if (normal || is_user_defined(id)) texts_.add(text, id);
    if (!normal) return;
    min_score_ = std::min(min_score_, score);
    max_score_ = std::max(max_score_, score);
  }

  /// The replacement of what the text begins with, and that's length.
  [[nodiscard]] Charsmap::Match normalize_start(std::string_view text) const {
    if (const std::size_t n = user_defined_.longest_prefix(text); n != 0)
      return {n, text.substr(0, n)};
    if (const Charsmap::Match match = charsmap_.longest(text); match.bytes != 0) return match;
    const Utf8Char c = first_char(text);
    return {c.bytes, c.valid ? text.substr(0, c.bytes) : kReplacement};
  }

  /// A run is the start of a text, or follows a control token: user-defined tokens are inside.
  [[nodiscard]] Normalized normalize(std::string_view run) const {
    const bool squeeze = vocabulary().remove_extra_whitespaces;
    Normalized out;
    std::size_t at = vocabulary().add_space_prefix && run.starts_with(' ') ? 1 : 0;
    const auto skip_spaces = [&] {
      for (Charsmap::Match next; at < run.size(); at += next.bytes) {
        next = normalize_start(run.substr(at));
        if (next.replacement != " ") return;
      }
    };
    if (squeeze) skip_spaces();
    if (at == run.size()) return out;
    if (vocabulary().add_space_prefix) out.add(kSpaceMark, at);
    bool after_space = squeeze;
    while (at < run.size()) {
      Charsmap::Match next = normalize_start(run.substr(at));
      at += next.bytes;
      while (after_space && next.replacement.starts_with(' ')) next.replacement.remove_prefix(1);
      for (const char c : next.replacement)
        out.add(c == ' ' ? kSpaceMark : std::string_view(&c, 1), at);
      if (!next.replacement.empty()) after_space = squeeze && next.replacement.ends_with(' ');
    }
    while (squeeze && out.text.ends_with(kSpaceMark))
      out.text.resize(out.text.size() - kSpaceMark.size());
    return out;
  }

  void encode_run(std::string_view run, TokenSink& sink) const override {
    const Normalized normalized = normalize(run);
    const std::vector<Best> best = best_tokens(normalized.text);
    std::vector<std::size_t> ends;  // ends of tokens, from the last one
    for (std::size_t end = normalized.text.size(); end > 0; end = best[end].begin)
      ends.push_back(end);
    bool after_unknown = false;
    for (std::size_t i = ends.size(); i-- > 0;) {
      const std::size_t end = ends[i], source = normalized.ends[end - 1];
      const bool unknown = best[end].id == unknown_;
      if (unknown && has_bytes_) {
        for (const char byte : normalized.text.substr(best[end].begin, end - best[end].begin))
          sink.push(byte_ids_[static_cast<unsigned char>(byte)], source);
      } else if (unknown && after_unknown) {
        sink.extend(source);
      } else {
        sink.push(best[end].id, source);
      }
      after_unknown = unknown && !has_bytes_;
    }
  }

  /// Returns the best last token of every prefix of the text, by its bytes.
  [[nodiscard]] std::vector<Best> best_tokens(std::string_view text) const {
    std::vector<Best> best(text.size() + 1);
    const auto offer = [&](std::size_t begin, std::size_t end, TokenId id, double score) {
      const double sum = score + double{best[begin].score};
      Best& to = best[end];
      if (!to.reached || sum > double{to.score}) to = {static_cast<float>(sum), id, begin, true};
    };
    for (std::size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
      bytes = first_char(text.substr(at)).bytes;
      bool has_single = false;
      texts_.for_each_prefix(text.substr(at), [&](std::size_t n, TokenId id) {
        const bool free = is_user_defined(id);
        offer(at, at + n, id,
              free ? static_cast<double>(static_cast<float>(n) * max_score_) - kUserDefinedPenalty
                   : double{vocabulary().scores[static_cast<std::size_t>(id)]});
        has_single = has_single || n == bytes;
      });
      if (!has_single) offer(at, at + bytes, unknown_, double{min_score_ - kUnknownPenalty});
    }
    return best;
  }

  /// Tokens may span words, and white space at ends is removed.
  [[nodiscard]] bool splits_after(char /*letter*/) const override { return false; }

  const Charsmap charsmap_;
  SortedTexts texts_, user_defined_;
  std::array<TokenId, 256> byte_ids_{};
  bool has_bytes_ = false;
  TokenId unknown_ = 0;
  float min_score_ = FLT_MAX, max_score_ = FLT_MIN;  ///< normal tokens only, as in the library
};

}  // namespace

std::unique_ptr<Tokenizer> make_unigram_tokenizer(const Vocabulary& vocabulary) {
  return std::make_unique<UnigramTokenizer>(vocabulary);
}

}  // namespace cria
