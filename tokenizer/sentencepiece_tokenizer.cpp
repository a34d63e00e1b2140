#include "tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "model/error.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/token_roles.h"
#include "tokenizer/utf8.h"

namespace cria {

namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581 stands for a space inside SentencePiece
constexpr char32_t kSpaceCode = 0x2581;
constexpr std::string_view kTokensKey = "key tokenizer.ggml.tokens";
constexpr TokenId kNone = -1;

std::string with_spaces(std::string_view text) {
  std::string out;
  for (std::size_t at; (at = text.find(kSpaceSymbol)) != std::string_view::npos;
       text.remove_prefix(at + kSpaceSymbol.size())) {
    out.append(text.substr(0, at)).push_back(' ');
  }
  return out.append(text);
}

/// The library does the merges. Done here, because it cannot:
/// - Special and user-defined tokens. The library never parses control tokens, takes only one <unk>,
///   and puts the dummy prefix before the whole text only, while models see one after every special
///   token. It is not shown these tokens, so no text merges into a control or byte token.
/// - Duplicate tokens: it refuses them; the last one wins, as elsewhere in the field.
/// - Missing byte tokens (it refuses; the unknown token stands in) and a missing space symbol.
/// - Invalid UTF-8 (it makes that U+FFFD) and a literal U+2581 (it makes that a space): they become
///   byte tokens, so that the text comes back exactly.
/// - Speed and memory on long texts: see encode_run.
/// Normalization rules (precompiled_charsmap, remove_extra_whitespaces) are not applied: LLaMA
/// vocabularies are made without, and the library walks a hostile charsmap unchecked.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const Vocabulary& vocabulary) : vocabulary_(vocabulary), specials_({}) {
    check_vocabulary(vocabulary);
    assign_roles();
    load();
  }

  [[nodiscard]] std::vector<TokenId> encode_parts(std::span<const TextPart> parts) const override;
  [[nodiscard]] std::string piece(TokenId id, bool show_special) const override;
  [[nodiscard]] bool dummy_space_after(std::optional<TokenId> previous) const override;
  [[nodiscard]] const Vocabulary& vocabulary() const noexcept override { return vocabulary_; }

 private:
  using Words = std::unordered_map<std::string_view, std::vector<TokenId>>;

  void assign_roles();
  void assign_bytes(std::optional<TokenId> unknown);
  void load();
  void note_neighbours(std::string_view token);
  [[nodiscard]] std::string_view text_of(TokenId id) const {
    return vocabulary_.tokens[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] TokenRole role_of(TokenId id) const { return roles_[static_cast<std::size_t>(id)]; }
  void encode_run(std::string_view run, std::vector<TokenId>& ids) const;
  void encode_word(std::string_view word, std::vector<TokenId>& ids, Words& known) const;
  void encode_bytes(std::string_view bytes, std::vector<TokenId>& ids) const;
  void append(std::span<const TokenId> more, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  sentencepiece::SentencePieceProcessor library_;
  SpecialTokens specials_;
  std::vector<TokenRole> roles_;                  ///< by id
  std::array<TokenId, 256> byte_ids_{};           ///< by byte value
  std::optional<TokenId> stand_in_;               ///< the unknown token, if it stands in for missing bytes
  std::vector<TokenId> ids_of_library_;           ///< by the library's id
  std::unordered_set<std::uint64_t> neighbours_;  ///< pairs of characters that occur inside some token
};

std::uint64_t pair_key(char32_t left, char32_t right) { return (std::uint64_t{left} << 32) | right; }

void SentencePieceTokenizer::assign_roles() {
  roles_ = token_roles(vocabulary_);
  const auto n = static_cast<TokenId>(vocabulary_.tokens.size());
  std::vector<SpecialTokens::Entry> special;
  std::optional<TokenId> unknown = vocabulary_.unk;
  byte_ids_.fill(kNone);
  for (TokenId id = 0; id < n; ++id) {
    const std::string_view text = text_of(id);
    const TokenRole role = role_of(id);
    if (!unknown && vocabulary_.types[static_cast<std::size_t>(id)] == TokenType::Unknown) unknown = id;
    if (role == TokenRole::Byte) {
      const int value = byte_value(text);
      if (value < 0) {
        throw Error("",
                    "malformed byte token " + std::to_string(id) + ": expected <0x00> to <0xFF>, got " +
                        std::string(text.substr(0, 32)),
                    kTokensKey);
      }
      byte_ids_[static_cast<std::size_t>(value)] = id;
    }
    if (text.empty()) continue;
    if (role == TokenRole::Control) special.push_back({std::string(text), id, true});
    if (role == TokenRole::UserDefined) special.push_back({with_spaces(text), id, false});
  }
  specials_ = SpecialTokens(std::move(special));
  assign_bytes(unknown);
}

void SentencePieceTokenizer::assign_bytes(std::optional<TokenId> unknown) {
  const auto missing = std::find(byte_ids_.begin(), byte_ids_.end(), kNone);
  if (missing == byte_ids_.end()) return;
  if (!unknown) {
    throw Error("",
                "no token for byte " + std::to_string(missing - byte_ids_.begin()) +
                    ": expected <0x00> to <0xFF>, or an unknown token to stand in",
                kTokensKey);
  }
  stand_in_ = unknown;
  std::replace(byte_ids_.begin(), byte_ids_.end(), kNone, *unknown);
}

void SentencePieceTokenizer::load() {
  SentencePieceModel model;
  std::unordered_map<std::string_view, TokenId> texts;
  const auto n = static_cast<TokenId>(vocabulary_.tokens.size());
  for (TokenId id = 0; id < n; ++id) {
    if (role_of(id) <= TokenRole::Unused && !text_of(id).empty()) texts[text_of(id)] = id;
  }
  for (TokenId id = 0; id < n; ++id) {
    const auto at = texts.find(text_of(id));
    if (at == texts.end() || at->second != id) continue;
    const float score = vocabulary_.scores.empty() ? 0.0F : vocabulary_.scores[static_cast<std::size_t>(id)];
    model.piece(text_of(id), score,
                role_of(id) == TokenRole::Unused ? SentencePieceModel::Unused : SentencePieceModel::Normal);
    ids_of_library_.push_back(id);
    note_neighbours(text_of(id));
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    model.piece({"<0x" + std::string{kHex[byte / 16], kHex[byte % 16], '>'}}, 0, SentencePieceModel::Byte);
    ids_of_library_.push_back(byte_ids_[byte]);
  }
  model.piece("\xFF", 0, SentencePieceModel::Unknown);  // demanded by the library; no text can spell it
  ids_of_library_.push_back(kNone);
  if (!texts.contains(kSpaceSymbol)) {
    model.piece(kSpaceSymbol, 0, SentencePieceModel::Normal);
    ids_of_library_.push_back(byte_ids_[' ']);
  }
  const std::string bytes = model.finish();
  const bool fits = bytes.size() <= std::numeric_limits<std::int32_t>::max();
  const auto status = fits ? library_.LoadFromSerializedProto(bytes) : sentencepiece::util::Status();
  if (!fits || !status.ok()) {
    throw Error("",
                "the sentencepiece library refuses the vocabulary: " +
                    std::string(fits ? status.message() : "over 2 GiB"),
                kTokensKey);
  }
}

void SentencePieceTokenizer::note_neighbours(std::string_view token) {
  char32_t previous = 0;
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Char c = first_char(token.substr(at));
    if (at > 0) neighbours_.insert(pair_key(previous, c.code_point));
    previous = c.code_point;
    at += c.bytes;
  }
}

std::vector<TokenId> SentencePieceTokenizer::encode_parts(std::span<const TextPart> parts) const {
  std::vector<TokenId> ids;
  std::string run;  // text since the last special token
  for (const TextPart& part : parts) {
    for (std::size_t at = 0; at < part.text.size();) {
      if (const auto special = specials_.match(part.text.substr(at), part.trusted)) {
        encode_run(run, ids);
        run.clear();
        ids.push_back(special->id);
        at += special->bytes;
      } else {
        const auto previous = ids.empty() ? std::nullopt : std::optional(ids.back());
        if (run.empty() && dummy_space_after(previous)) run.push_back(' ');
        run.push_back(part.text[at++]);
      }
    }
  }
  encode_run(run, ids);
  return ids;
}

/// Merges never cross a place whose two characters are neighbours in no token, so the run is cut there
/// into words, each is encoded once, and the ids are those of the run as a whole. The library alone needs
/// some 60 bytes of memory per byte and the time of a sort, and its int indices end at 2 GiB. The last
/// resort, a cut every MiB, is met only by that much text without a seam (one letter a million times);
/// there it may cost a token.
void SentencePieceTokenizer::encode_run(std::string_view run, std::vector<TokenId>& ids) const {
  constexpr std::size_t kLongestWord = std::size_t{1} << 20;
  Words known;
  std::size_t begin = 0;
  char32_t previous = 0;
  for (std::size_t at = 0; at < run.size();) {
    const Utf8Char c = first_char(run.substr(at));
    const char32_t code = c.code_point == U' ' ? kSpaceCode : c.code_point;
    const bool bytes_only = !c.valid || c.code_point == kSpaceCode;
    if (at > begin &&
        (bytes_only || at - begin >= kLongestWord || !neighbours_.contains(pair_key(previous, code)))) {
      encode_word(run.substr(begin, at - begin), ids, known);
      begin = at;
    }
    if (bytes_only) {
      encode_bytes(run.substr(at, c.bytes), ids);
      begin = at + c.bytes;
    }
    previous = code;
    at += c.bytes;
  }
  if (begin < run.size()) encode_word(run.substr(begin), ids, known);
}

void SentencePieceTokenizer::encode_word(std::string_view word, std::vector<TokenId>& ids,
                                         Words& known) const {
  constexpr std::size_t kMostWords = 1U << 16, kLongestKnown = 64;
  const auto found = known.find(word);
  if (found != known.end()) return append(found->second, ids);
  std::vector<int> pieces;
  const auto status = library_.Encode(word, &pieces);
  if (!status.ok()) throw Error("", "the sentencepiece library failed: " + std::string(status.message()));
  std::vector<TokenId> mapped;
  mapped.reserve(pieces.size());
  for (const int piece : pieces) mapped.push_back(ids_of_library_[static_cast<std::size_t>(piece)]);
  append(mapped, ids);
  if (word.size() <= kLongestKnown && known.size() < kMostWords) known.emplace(word, std::move(mapped));
}

void SentencePieceTokenizer::encode_bytes(std::string_view bytes, std::vector<TokenId>& ids) const {
  for (const char byte : bytes) append({&byte_ids_[static_cast<unsigned char>(byte)], 1}, ids);
}

// A run of bytes that have no tokens gives one unknown token, as SentencePiece has it.
void SentencePieceTokenizer::append(std::span<const TokenId> more, std::vector<TokenId>& ids) const {
  for (const TokenId id : more) {
    if (id != stand_in_ || ids.empty() || ids.back() != id) ids.push_back(id);
  }
}

// Not the library's decoder: that turns bytes which are not UTF-8 into U+FFFD.
std::string SentencePieceTokenizer::piece(TokenId id, bool show_special) const {
  if (id < 0 || static_cast<std::size_t>(id) >= roles_.size()) {
    throw Error("token id outside the vocabulary: expected 0 to " + std::to_string(roles_.size() - 1) +
                ", got " + std::to_string(id));
  }
  switch (role_of(id)) {
    case TokenRole::Byte:
      return {static_cast<char>(byte_value(text_of(id)))};
    case TokenRole::Control:
      return show_special ? std::string(text_of(id)) : std::string();
    default:
      return with_spaces(text_of(id));
  }
}

bool SentencePieceTokenizer::dummy_space_after(std::optional<TokenId> previous) const {
  return vocabulary_.add_space_prefix && (!previous || role_of(*previous) >= TokenRole::Control);
}

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const Vocabulary& vocabulary) {
  return std::make_unique<SentencePieceTokenizer>(vocabulary);
}

}  // namespace cria
