#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/error.h"
#include "model/plural.h"
#include "tokenizer/bpe/merger.h"
#include "tokenizer/bpe/pre_tokenizer.h"
#include "tokenizer/bpe/run_tokenizer.h"
#include "tokenizer/bpe/special_tokens.h"
#include "tokenizer/bpe/word_tables.h"

namespace cria {

namespace {

/// All work is on bytes: the tokens' visible characters are turned into the bytes they stand for
/// once, at the start. Control tokens take no part in merges, so no text becomes one.
class BytePairTokenizer final : public RunTokenizer {
 public:
  explicit BytePairTokenizer(const Vocabulary& vocabulary)
      : RunTokenizer(vocabulary), words_(vocabulary.pre) {
    find_special_tokens([this](TokenId id) { return std::string(text_of(id)); });
    collect_texts();
    collect_merges();
  }

  [[nodiscard]] std::string piece(TokenId id, bool show_special) const override;
  [[nodiscard]] bool dummy_space_after(std::optional<TokenId>) const override { return false; }

 private:
  struct Word {
    std::vector<TokenId> ids;
    Merger<PairTable> merger;
    WordCache known;
  };

  void collect_texts();
  void collect_merges();
  void encode_run(std::string_view run, TokenSink& sink) const override;
  [[nodiscard]] bool splits_after(char) const override { return !words_.joins_words(); }
  void encode_word(std::string_view word, Word& work) const;
  [[nodiscard]] TokenId id_of_byte(char byte) const;

  PreTokenizer words_;
  std::string bytes_;                   ///< texts of all tokens, concatenated
  std::vector<std::uint32_t> lengths_;  ///< by id: how many bytes the token stands for
  TextTable texts_;                     ///< by the bytes
  std::array<TokenId, 256> byte_ids_{};
  std::optional<TokenId> stand_in_;  ///< for bytes that have no token
  PairTable pairs_;
};

void BytePairTokenizer::collect_texts() {
  const auto n = static_cast<TokenId>(vocabulary().tokens.size());
  std::vector<std::size_t> begins;
  for (TokenId id = 0; id < n; ++id) {
    begins.push_back(bytes_.size());
    if (role_of(id) <= TokenRole::Unused) append_bytes_of_byte_text(text_of(id), bytes_);
  }
  begins.push_back(bytes_.size());
  texts_ = TextTable(static_cast<std::size_t>(n));
  byte_ids_.fill(TextTable::kNone);
  for (TokenId id = 0; id < n; ++id) {
    const std::size_t begin = begins[static_cast<std::size_t>(id)];
    const std::string_view text =
        std::string_view(bytes_).substr(begin, begins[static_cast<std::size_t>(id) + 1] - begin);
    const bool is_byte = role_of(id) == TokenRole::Byte;
    lengths_.push_back(static_cast<std::uint32_t>(is_special(role_of(id)) ? text_of(id).size()
                                                  : is_byte               ? 1
                                                                          : text.size()));
    if (!text.empty()) texts_.insert(text, id);
    if (text.size() == 1) byte_ids_[static_cast<unsigned char>(text[0])] = id;
  }
  for (TokenId id = 0; id < n; ++id) {
    if (role_of(id) != TokenRole::Byte) continue;
    const int value = byte_value(text_of(id));
    if (value >= 0 && byte_ids_[static_cast<std::size_t>(value)] == TextTable::kNone)
      byte_ids_[static_cast<std::size_t>(value)] = id;
  }
  stand_in_ = unknown_token();
}

/// A merge counts only if both parts and the whole are tokens: nothing else could come out of it.
void BytePairTokenizer::collect_merges() {
  const auto& merges = vocabulary().merges;
  pairs_ = PairTable(merges.size());
  std::string bytes;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::size_t space = merges[rank].find(' ', 1);
    if (space == std::string_view::npos) {
      throw Error("",
                  "bad merge " + std::to_string(rank) +
                      ": expected two parts with a space between, got " +
                      std::string(merges[rank].substr(0, 64)),
                  "key tokenizer.ggml.merges");
    }
    bytes.clear();
    append_bytes_of_byte_text(merges[rank].substr(0, space), bytes);
    const std::size_t middle = bytes.size();
    append_bytes_of_byte_text(merges[rank].substr(space + 1), bytes);
    const std::string_view whole = bytes;
    const TokenId left = texts_.find(whole.substr(0, middle)),
                  right = texts_.find(whole.substr(middle)), joined = texts_.find(whole);
    if (left != TextTable::kNone && right != TextTable::kNone && joined != TextTable::kNone)
      pairs_.insert(left, right, {static_cast<std::uint32_t>(rank), joined});
  }
}

TokenId BytePairTokenizer::id_of_byte(char byte) const {
  const auto value = static_cast<unsigned char>(byte);
  const TokenId id = byte_ids_[value];
  if (id != TextTable::kNone) return id;
  if (stand_in_) return *stand_in_;
  throw Error("",
              "no token for byte " + std::to_string(value) + ", and no unknown token to stand in",
              "key tokenizer.ggml.tokens");
}

void BytePairTokenizer::encode_word(std::string_view word, Word& work) const {
  work.ids.clear();
  if (words_.ignores_merges()) {
    if (const TokenId whole = texts_.find(word); whole != TextTable::kNone)
      return work.ids.push_back(whole);
  }
  if (word.size() >= std::numeric_limits<std::uint32_t>::max())
    throw Error("", "a word of the text is too long: expected less than 4 GiB, got " +
                        counted(word.size(), "byte"));
  work.ids.reserve(word.size());
  for (const char byte : word) work.ids.push_back(id_of_byte(byte));
  work.merger.run(pairs_, work.ids);
}

void BytePairTokenizer::encode_run(std::string_view run, TokenSink& sink) const {
  Word work;
  words_.split(run, [&](std::string_view word) {
    std::span<const TokenId> ids = work.known.find(word);
    if (ids.data() == nullptr) {
      encode_word(word, work);
      ids = work.ids;
      work.known.insert(word, ids);
    }
    if (!sink.wants_ends()) return sink.push(ids);
    auto end = static_cast<std::size_t>(word.data() - run.data());
    for (const TokenId id : ids) {
      end += id == stand_in_ ? 1 : lengths_[static_cast<std::size_t>(id)];
      sink.push(id, end);
    }
  });
}

std::string BytePairTokenizer::piece(TokenId id, bool show_special) const {
  require_id(id);
  switch (role_of(id)) {
    case TokenRole::Control:
      return show_special ? std::string(text_of(id)) : std::string();
    case TokenRole::Marker:
    case TokenRole::UserDefined:
      return std::string(text_of(id));
    case TokenRole::Byte:
      if (const int value = byte_value(text_of(id)); value >= 0) return {static_cast<char>(value)};
      [[fallthrough]];
    default:
      return bytes_of_byte_text(text_of(id));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> make_byte_pair_tokenizer(const Vocabulary& vocabulary) {
  return std::make_unique<BytePairTokenizer>(vocabulary);
}

}  // namespace cria
