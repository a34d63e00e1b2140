#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "model/error.h"
#include "model/file/utf8.h"
#include "model/plural.h"
#include "tokenizer/bpe/merger.h"
#include "tokenizer/bpe/run_tokenizer.h"
#include "tokenizer/bpe/word_tables.h"

namespace cria {

namespace {

constexpr std::string_view kSpaceSymbol =
    "\xE2\x96\x81";  // U+2581 stands for a space inside SentencePiece
constexpr char32_t kSpaceCode = 0x2581;

std::string with_spaces(std::string_view text) {
  std::string out;
  for (std::size_t at; (at = text.find(kSpaceSymbol)) != std::string_view::npos;
       text.remove_prefix(at + kSpaceSymbol.size())) {
    out.append(text.substr(0, at)).push_back(' ');
  }
  return out.append(text);
}

void append_with_space_symbols(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == ' ')
      out += kSpaceSymbol;
    else
      out += c;
  }
}

/// Merging by the score of the token that two symbols make, the highest first; or, where the
/// vocabulary lists its merges, by the rank of the pair. A symbol is a stretch of the word; it need
/// not be a token.
class ScoredTexts {
 public:
  struct Symbol {
    std::uint64_t hash;
    std::uint32_t begin, bytes;
  };
  /// Tokens that are unused may be steps to others, but are taken apart again in the end: how, as
  /// was proposed last.
  using Parts = std::unordered_map<TokenId, std::pair<Symbol, Symbol>>;

  void build(const Vocabulary& vocabulary, const std::vector<TokenRole>& roles);
  void build_pairs(const Vocabulary& vocabulary);
  [[nodiscard]] bool by_pairs() const { return by_pairs_; }
  [[nodiscard]] const TextTable& texts() const { return texts_; }
  [[nodiscard]] bool is_unused(TokenId id) const {
    return has_unused_ && unused_[static_cast<std::size_t>(id)];
  }

  /// The rules of the merger, for one word.
  struct Rules {
    using Symbol = ScoredTexts::Symbol;
    [[nodiscard]] Merge find(Symbol left, Symbol right) const;
    [[nodiscard]] Symbol join(Symbol left, Symbol right, TokenId) const {
      return {texts.joined_hash(left, right), left.begin, left.bytes + right.bytes};
    }
    const ScoredTexts& texts;
    std::string_view word;
    Parts* parts;
  };

 private:
  [[nodiscard]] std::uint64_t joined_hash(Symbol left, Symbol right) const {
    return left.hash * powers_[std::min<std::size_t>(right.bytes, powers_.size() - 1)] + right.hash;
  }

  TextTable texts_;
  std::vector<std::uint32_t> ranks_;   ///< by id; the best score has rank 0, equal ones the same
  std::vector<std::uint64_t> powers_;  ///< powers of the hash's base, up to the longest token
  std::vector<bool> unused_;           ///< by id
  bool has_unused_ = false;
  PairTable pairs_;
  bool by_pairs_ = false;  ///< pairs_ decides, not ranks_
};

void ScoredTexts::build(const Vocabulary& v, const std::vector<TokenRole>& roles) {
  const std::size_t n = v.tokens.size();
  texts_ = TextTable(n + 1);
  std::size_t longest = 0;
  for (std::size_t id = 0; id < n; ++id) {
    unused_.push_back(roles[id] == TokenRole::Unused);
    if (roles[id] > TokenRole::Unused || v.tokens[id].empty()) continue;
    texts_.insert(v.tokens[id], static_cast<TokenId>(id));
    longest = std::max(longest, v.tokens[id].size());
    has_unused_ = has_unused_ || unused_.back();
  }
  powers_.assign(longest + 1, 1);
  for (std::size_t i = 1; i <= longest; ++i) powers_[i] = powers_[i - 1] * TextTable::kBase;
  ranks_.assign(n, 0);
  if (v.scores.empty()) return;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return v.scores[a] > v.scores[b]; });
  for (std::size_t i = 1; i < n; ++i)
    ranks_[order[i]] = ranks_[order[i - 1]] + (v.scores[order[i]] < v.scores[order[i - 1]] ? 1 : 0);
}

void ScoredTexts::build_pairs(const Vocabulary& v) {
  by_pairs_ = true;
  has_unused_ =
      false;  // such a vocabulary is merged as it is listed, whatever its tokens are called
  pairs_ = PairTable(v.merges.size());
  for (std::size_t rank = 0; rank < v.merges.size(); ++rank) {
    const std::string_view merge = v.merges[rank];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) continue;  // not in a file that was read
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const TokenId a = texts_.find(left), b = texts_.find(right),
                  whole = texts_.find(std::string(left).append(right));
    if (a != TextTable::kNone && b != TextTable::kNone && whole != TextTable::kNone)
      pairs_.insert(a, b, {static_cast<std::uint32_t>(rank), whole});
  }
}

Merge ScoredTexts::Rules::find(Symbol left, Symbol right) const {
  const std::size_t bytes = std::size_t{left.bytes} + right.bytes;
  if (bytes >= texts.powers_.size()) return {};
  const TokenId id =
      texts.texts_.find(texts.joined_hash(left, right), word.substr(left.begin, bytes));
  if (id == TextTable::kNone) return {};
  if (texts.by_pairs_) {
    const auto token = [&](Symbol part) {
      return texts.texts_.find(part.hash, word.substr(part.begin, part.bytes));
    };
    return texts.pairs_.find(token(left), token(right));
  }
  if (texts.is_unused(id)) parts->insert_or_assign(id, std::pair(left, right));
  return {texts.ranks_[static_cast<std::size_t>(id)], id};
}

/// Vocabularies of SentencePiece's BPE kind. The sentencepiece library does not merge here: it
/// would have to be shielded from special, duplicate and missing tokens and from invalid UTF-8. The
/// merges that remain are shared with the byte-level kind, and the tests compare them with the
/// library. Deliberate differences:
/// - The last of duplicate tokens wins, as elsewhere in the field. The unknown token may stand in
/// for missing byte tokens.
/// - Invalid UTF-8 (U+FFFD there) and a literal U+2581 (a space there) become byte tokens, so that
/// decoding returns the same text.
/// - A vocabulary's list of merges (Gemma 4) decides, as in the library that made it. Its split
/// between words and spaces never splits a merge and is not needed here.
/// - Normalization rules (precompiled_charsmap, remove_extra_whitespaces) are ignored: LLaMA
/// vocabularies have none.
class SentencePieceTokenizer final : public RunTokenizer {
 public:
  explicit SentencePieceTokenizer(const Vocabulary& vocabulary) : RunTokenizer(vocabulary) {
    find_special_tokens([this](TokenId id) {
      return role_of(id) == TokenRole::Control ? std::string(text_of(id))
                                               : with_spaces(text_of(id));
    });
    assign_bytes();
    texts_.build(vocabulary, token_roles(vocabulary));
    if (merges_are_listed(vocabulary)) texts_.build_pairs(vocabulary);
    for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.tokens.size()); ++id)
      if (role_of(id) <= TokenRole::Unused) inside_tokens_.add(text_of(id));
  }

  [[nodiscard]] std::string piece(TokenId id, bool show_special) const override;
  [[nodiscard]] bool dummy_space_after(std::optional<TokenId> previous) const override {
    return vocabulary().add_space_prefix && (!previous || is_special(role_of(*previous)));
  }

 private:
  using Symbol = ScoredTexts::Symbol;

  struct Word {
    std::string text;  ///< with U+2581 for spaces
    std::vector<Symbol> symbols;
    std::vector<TokenId> ids;
    Merger<ScoredTexts::Rules> merger;
    ScoredTexts::Parts parts;
    WordCache known;
  };

  void assign_bytes();
  void encode_run(std::string_view run, TokenSink& sink) const override;
  [[nodiscard]] bool splits_after(char letter) const override {
    return !stand_in_ && !inside_tokens_.contains(static_cast<unsigned char>(letter), kSpaceCode);
  }
  void encode_word(std::string_view run, std::size_t begin, std::size_t end, Word& work,
                   TokenSink& sink) const;
  void merge_word(std::string_view word, Word& work) const;
  void take_apart(Symbol symbol, Word& work) const;
  void push(std::span<const TokenId> ids, std::size_t begin, std::size_t end,
            TokenSink& sink) const;
  void push_bytes(std::string_view run, std::size_t begin, std::size_t end, TokenSink& sink) const;

  ScoredTexts texts_;
  CharacterPairs inside_tokens_;         ///< neighbours in some token
  std::array<TokenId, 256> byte_ids_{};  ///< by byte value
  std::optional<TokenId> stand_in_;      ///< the unknown token, if it stands in for missing bytes
};

void SentencePieceTokenizer::assign_bytes() {
  byte_ids_.fill(TextTable::kNone);
  for (TokenId id = 0; id < static_cast<TokenId>(vocabulary().tokens.size()); ++id) {
    if (role_of(id) != TokenRole::Byte) continue;
    const int value = byte_value(text_of(id));
    if (value < 0) {
      throw Error("",
                  "malformed byte token " + std::to_string(id) +
                      ": expected <0x00> to <0xFF>, got " + std::string(text_of(id).substr(0, 32)),
                  "key tokenizer.ggml.tokens");
    }
    byte_ids_[static_cast<std::size_t>(value)] = id;
  }
  const auto missing = std::find(byte_ids_.begin(), byte_ids_.end(), TextTable::kNone);
  if (missing == byte_ids_.end()) return;
  stand_in_ = unknown_token();
  if (!stand_in_) {
    throw Error("",
                "no token for byte " + std::to_string(missing - byte_ids_.begin()) +
                    ": expected <0x00> to <0xFF>, or an unknown token to stand in",
                "key tokenizer.ggml.tokens");
  }
  std::replace(byte_ids_.begin(), byte_ids_.end(), TextTable::kNone, *stand_in_);
}

/// Merges never cross a place whose two characters are adjacent in no token. Splitting the run
/// there and merging each word once gives the ids of the whole run.
void SentencePieceTokenizer::encode_run(std::string_view run, TokenSink& sink) const {
  Word work;
  std::size_t begin = 0;
  char32_t previous = 0;
  for (std::size_t at = 0; at < run.size();) {
    const Utf8Char c = first_char(run.substr(at));
    const char32_t code = c.code_point == U' ' ? kSpaceCode : c.code_point;
    const bool bytes_only = !c.valid || c.code_point == kSpaceCode;
    if (at > begin && (bytes_only || !inside_tokens_.contains(previous, code))) {
      encode_word(run, begin, at, work, sink);
      begin = at;
    }
    if (bytes_only) {
      push_bytes(run, at, at + c.bytes, sink);
      begin = at + c.bytes;
    }
    previous = code;
    at += c.bytes;
  }
  if (begin < run.size()) encode_word(run, begin, run.size(), work, sink);
}

void SentencePieceTokenizer::encode_word(std::string_view run, std::size_t begin, std::size_t end,
                                         Word& work, TokenSink& sink) const {
  const std::string_view word = run.substr(begin, end - begin);
  std::span<const TokenId> ids = work.known.find(word);
  if (ids.data() == nullptr) {
    merge_word(word, work);
    ids = work.ids;
    work.known.insert(word, ids);
  }
  push(ids, begin, end, sink);
}

void SentencePieceTokenizer::merge_word(std::string_view word, Word& work) const {
  if (texts_.by_pairs() && word.find_first_not_of('\n') == std::string_view::npos) {
    // Some files lack the merges of line ends; with them, this is the result.
    if (const TokenId whole = texts_.texts().find(word); whole != TextTable::kNone) {
      work.ids.assign(1, whole);
      return;
    }
  }
  work.text.clear();
  append_with_space_symbols(word, work.text);
  if (work.text.size() >= std::numeric_limits<std::uint32_t>::max())
    throw Error("", "a word of the text is too long: expected less than 4 GiB, got " +
                        counted(work.text.size(), "byte"));
  work.symbols.clear();
  for (std::size_t at = 0; at < work.text.size();) {
    const std::size_t bytes = first_char(std::string_view(work.text).substr(at)).bytes;
    const std::string_view character = std::string_view(work.text).substr(at, bytes);
    work.symbols.push_back({TextTable::hash(character), static_cast<std::uint32_t>(at),
                            static_cast<std::uint32_t>(bytes)});
    at += bytes;
  }
  work.parts.clear();
  work.merger.run(ScoredTexts::Rules{texts_, work.text, &work.parts}, work.symbols);
  work.ids.clear();
  for (const Symbol& symbol : work.symbols) take_apart(symbol, work);
}

/// The ids of a symbol: its token, the tokens that an unused one is made of, or bytes.
void SentencePieceTokenizer::take_apart(Symbol symbol, Word& work) const {
  std::vector<Symbol> pending{symbol};
  while (!pending.empty()) {
    const Symbol next = pending.back();
    pending.pop_back();
    const std::string_view text = std::string_view(work.text).substr(next.begin, next.bytes);
    const TokenId id = texts_.texts().find(next.hash, text);
    if (id != TextTable::kNone && texts_.is_unused(id)) {
      if (const auto parts = work.parts.find(id); parts != work.parts.end()) {
        pending.insert(pending.end(), {parts->second.second, parts->second.first});
        continue;
      }
    }
    if (id != TextTable::kNone)
      work.ids.push_back(id);
    else if (text == kSpaceSymbol)
      work.ids.push_back(byte_ids_[' ']);
    else
      for (const char byte : text) work.ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  }
}

// A run of bytes that have no tokens gives one unknown token, as SentencePiece has it.
void SentencePieceTokenizer::push(std::span<const TokenId> ids, std::size_t begin, std::size_t end,
                                  TokenSink& sink) const {
  if (!sink.wants_ends() && !stand_in_) return sink.push(ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const TokenId id = ids[i];
    begin = std::min(end, begin + (id == stand_in_ ? 1 : piece(id, true).size()));
    const std::size_t token_end = i + 1 == ids.size() ? end : begin;
    if (id == stand_in_ && !sink.ids().empty() && sink.ids().back() == id)
      sink.extend(token_end);
    else
      sink.push(id, token_end);
  }
}

void SentencePieceTokenizer::push_bytes(std::string_view run, std::size_t begin, std::size_t end,
                                        TokenSink& sink) const {
  for (; begin < end; ++begin)
    push({&byte_ids_[static_cast<unsigned char>(run[begin])], 1}, begin, begin + 1, sink);
}

std::string SentencePieceTokenizer::piece(TokenId id, bool show_special) const {
  require_id(id);
  switch (role_of(id)) {
    case TokenRole::Byte:
      return {static_cast<char>(byte_value(text_of(id)))};
    case TokenRole::Control:
      return show_special ? std::string(text_of(id)) : std::string();
    default:
      return with_spaces(text_of(id));
  }
}

}  // namespace

bool merges_are_listed(const Vocabulary& vocabulary) {
  constexpr std::string_view kPre[] = {"gemma4", "sarvam-moe", "granite-embed-multi-311m"};
  return vocabulary.model == "gemma4" ||
         (vocabulary.model == "gpt2" && std::ranges::count(kPre, vocabulary.pre) != 0);
}

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const Vocabulary& vocabulary) {
  return std::make_unique<SentencePieceTokenizer>(vocabulary);
}

}  // namespace cria
