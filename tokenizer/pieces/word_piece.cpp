#include <algorithm>
#include <string>
#include <vector>

#include "model/error.h"
#include "model/file/utf8.h"
#include "tokenizer/bpe/run_tokenizer.h"
#include "tokenizer/bpe/word_tables.h"
#include "tokenizer/unicode/unicode.h"

namespace cria {
namespace {

constexpr std::string_view kWordStart = "\xE2\x96\x81";  // U+2581 begins tokens that begin words
constexpr std::size_t kMaxWordChars = 100;  // a longer word is unknown, as in BERT's tokenizers

/// CJK ideographs, each a word. The first range of extension E is as published in BERT's fast
/// tokenizers, though the block begins at U+2B820.
constexpr CodeRange kIdeographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                     {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                     {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};

bool is_ideograph(char32_t c) {
  return std::ranges::any_of(kIdeographs,
                             [c](const CodeRange& r) { return r.low <= c && c <= r.high; });
}

bool is_ascii_symbol(char32_t c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

/// BERT's tokenizer: cleans and normalizes the text, splits it into words, and takes the longest
/// tokens of each from the left.
class WordPieceTokenizer final : public RunTokenizer {
 public:
  explicit WordPieceTokenizer(const Vocabulary& v)
      : RunTokenizer(v),
        texts_(v.tokens.size() + 1),
        controls_(*unicode_set(UnicodeProperty::Category, "C")),
        punctuation_(*unicode_set(UnicodeProperty::Category, "P")) {
    const auto unknown = unknown_token();
    if (!unknown)
      throw Error("", "a WordPiece vocabulary without an unknown token",
                  "key tokenizer.ggml.unknown_token_id");
    unknown_ = *unknown;
    find_special_tokens([this](TokenId id) { return std::string(text_of(id)); });
    for (TokenId id = 0; id < static_cast<TokenId>(v.tokens.size()); ++id) {
      if (role_of(id) > TokenRole::Unused || text_of(id).empty()) continue;
      texts_.insert(text_of(id), id);
      longest_ = std::max(longest_, text_of(id).size());
    }
  }

  [[nodiscard]] std::string piece(TokenId id, bool show_special) const override {
    require_id(id);
    if (role_of(id) == TokenRole::Control && !show_special) return {};
    const std::string_view text = text_of(id);
    if (!text.starts_with(kWordStart)) return std::string(text);
    return " " + std::string(text.substr(kWordStart.size()));
  }
  [[nodiscard]] bool dummy_space_after(std::optional<TokenId> previous) const override {
    return !previous || is_special(role_of(*previous));
  }

 private:
  /// A word under way.
  struct Word {
    std::string text{kWordStart};
    std::vector<std::size_t> ends;  ///< in the run, by character
    std::vector<TokenId> ids;
    std::vector<std::size_t> id_ends;

    [[nodiscard]] bool empty() const { return ends.empty(); }
    void add(char32_t c, std::size_t end) {
      append_utf8(text, c);
      ends.push_back(end);
    }
    void clear() {
      text.assign(kWordStart);
      ends.clear();
    }
  };

  void encode_run(std::string_view run, TokenSink& sink) const override {
    Word word;
    std::u32string chars, plain;
    for (std::size_t at = 0; at < run.size();) {
      const Utf8Char c = first_char(run.substr(at));
      at += c.bytes;
      const char32_t code = c.code_point;
      const bool is_space = c.valid && (code == '\t' || code == '\n' || code == '\r');
      if (!c.valid || code == 0xFFFD || (contains(controls_, code) && !is_space)) continue;
      if (is_space || is_white_space(code)) {
        finish(word, sink);
        continue;
      }
      const bool alone = is_ideograph(code);
      if (alone) finish(word, sink);
      normalize(code, chars, plain);
      for (const char32_t one : plain) add(one, at, word, sink);
      if (alone) finish(word, sink);
    }
    finish(word, sink);
  }
  void normalize(char32_t code, std::u32string& chars, std::u32string& plain) const {
    chars.clear();
    plain.clear();
    if (vocabulary().strip_accents)
      append_without_marks(code, chars);
    else
      chars += code;
    if (!vocabulary().lower_case) return plain.swap(chars);
    for (const char32_t one : chars) append_lower_case(one, plain);
  }
  void add(char32_t c, std::size_t end, Word& word, TokenSink& sink) const {
    if (is_white_space(c)) return finish(word, sink);  // a decomposition may contain a space
    const bool alone = is_ascii_symbol(c) || contains(punctuation_, c);
    if (alone) finish(word, sink);
    word.add(c, end);
    if (alone) finish(word, sink);
  }

  void finish(Word& word, TokenSink& sink) const {
    if (word.empty()) return;
    if (word.ends.size() > kMaxWordChars || !split(word)) {
      sink.push(unknown_, word.ends.back());
    } else {
      for (std::size_t i = 0; i < word.ids.size(); ++i) sink.push(word.ids[i], word.id_ends[i]);
    }
    word.clear();
  }

  /// Finds the tokens of a word; false if some part has none.
  bool split(Word& word) const {
    word.ids.clear();
    word.id_ends.clear();
    const std::string_view text = word.text;
    std::size_t taken = 0;  // characters
    for (std::size_t at = 0; at < text.size();) {
      TokenId id = TextTable::kNone;
      std::size_t bytes = 0;
      std::uint64_t hash = 0;
      for (std::size_t n = 1; n <= std::min(longest_, text.size() - at); ++n) {
        hash = hash * TextTable::kBase + static_cast<unsigned char>(text[at + n - 1]) + 1;
        const TokenId found = texts_.find(hash, text.substr(at, n));
        if (found == TextTable::kNone || (at == 0 && n <= kWordStart.size())) continue;
        id = found;
        bytes = n;
      }
      if (id == TextTable::kNone) return false;
      const std::string_view token = text.substr(at, bytes);
      taken += static_cast<std::size_t>(std::ranges::count_if(
          token, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
      if (at == 0) --taken;  // the mark of a word's start
      word.ids.push_back(id);
      word.id_ends.push_back(word.ends[taken - 1]);
      at += bytes;
    }
    return true;
  }

  /// Words of letters end at spaces, and no token spans words.
  [[nodiscard]] bool splits_after(char /*letter*/) const override { return true; }

  TextTable texts_;
  std::size_t longest_ = 0;  ///< bytes
  const CodeSet controls_, punctuation_;
  TokenId unknown_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> make_word_piece_tokenizer(const Vocabulary& vocabulary) {
  return std::make_unique<WordPieceTokenizer>(vocabulary);
}

}  // namespace cria
