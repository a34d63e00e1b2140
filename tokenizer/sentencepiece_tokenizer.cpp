#include "tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <protozero/pbf_writer.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "model/error.h"
#include "tokenizer/special_tokens.h"
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

/// The value of "<0x0A>", or -1.
int byte_value(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const auto digit = [&](char c) {
    return kDigits.find(c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c);
  };
  const std::size_t high = digit(text[3]), low = digit(text[4]);
  if (high > 15 || low > 15) return -1;
  return static_cast<int>(high * 16 + low);
}

/// What a token is to this tokenizer.
enum class Role : std::uint8_t { Text, Unused, Byte, Control, UserDefined };

/// The type that the file gives, mended where files in the wild are careless.
class Roles {
 public:
  explicit Roles(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary),
        has_byte_type_(std::count(vocabulary.types.begin(), vocabulary.types.end(), TokenType::Byte) > 0),
        control_(vocabulary.end_of_generation.begin(), vocabulary.end_of_generation.end()) {
    for (const auto& id : {vocabulary.bos, vocabulary.eos, vocabulary.unk}) {
      if (id) control_.insert(*id);
    }
  }

  [[nodiscard]] Role of(TokenId id) const {
    const std::string_view text = vocabulary_.tokens[static_cast<std::size_t>(id)];
    switch (vocabulary_.types[static_cast<std::size_t>(id)]) {
      case TokenType::Control:
      case TokenType::Unknown:
        return Role::Control;
      case TokenType::Byte:
        return Role::Byte;
      // Chat markers added to a model after its training are often called user-defined: users could forge
      // them.
      case TokenType::UserDefined:
        return control_.contains(id) || (text.starts_with("<|") && text.ends_with("|>")) ? Role::Control
                                                                                         : Role::UserDefined;
      case TokenType::Unused:
        return Role::Unused;
      default:
        break;
    }
    if (control_.contains(id)) return Role::Control;  // a file without token types
    return !has_byte_type_ && byte_value(text) >= 0 ? Role::Byte : Role::Text;
  }

 private:
  const Vocabulary& vocabulary_;
  bool has_byte_type_;
  std::unordered_set<TokenId> control_;
};

void check(const Vocabulary& v) {
  const std::size_t n = v.tokens.size();
  const auto expect = [](bool holds, const std::string& message, std::string_view key) {
    if (!holds) throw Error("", message, "key tokenizer.ggml." + std::string(key));
  };
  const auto count = [&](const std::string& what, std::size_t got) {
    return "wrong number of " + what + ": expected " + std::to_string(n) + ", got " + std::to_string(got);
  };
  expect(n > 0 && n < (1U << 30), "no usable token list: " + std::to_string(n) + " tokens", "tokens");
  expect(v.types.size() == n, count("token types", v.types.size()), "token_type");
  expect(v.scores.empty() || v.scores.size() == n, count("scores", v.scores.size()), "scores");
  expect(std::none_of(v.scores.begin(), v.scores.end(), [](float s) { return std::isnan(s); }),
         "a score is not a number", "scores");
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

/// Writes a SentencePiece ModelProto; field numbers of sentencepiece_model.proto.
class ModelWriter {
 public:
  enum PieceType : std::int32_t { Normal = 1, Unknown = 2, Unused = 5, Byte = 6 };

  void piece(std::string_view text, float score, PieceType type) {
    protozero::pbf_writer message(model_, 1);
    message.add_string(1, text.data(), text.size());
    message.add_float(2, score);
    message.add_enum(3, type);
  }

  std::string finish() {
    {
      protozero::pbf_writer trainer(model_, 2);
      trainer.add_enum(3, 2);      // model_type: BPE
      trainer.add_bool(35, true);  // byte_fallback
    }
    {
      protozero::pbf_writer normalizer(model_, 3);
      normalizer.add_string(1, "identity");
      normalizer.add_bool(3, false);  // add_dummy_prefix: done here, after every special token
      normalizer.add_bool(4, false);  // remove_extra_whitespaces
      normalizer.add_bool(5, true);   // escape_whitespaces
    }
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  protozero::pbf_writer model_{bytes_};
};

/// The library does the merges. Done here, because it cannot:
/// - special and user-defined tokens: the library takes only one <unk>, never parses control tokens, and puts
/// the dummy prefix
///   only before the whole text, while models see one after every special token. So the library is never
///   shown those tokens and no text, however strange, can merge into a control or byte token.
/// - duplicate tokens (refused by the library; the last one wins, as elsewhere in the field) and empty or
/// invalid ones;
/// - missing byte tokens (refused by the library; the unknown token stands in) and a missing space symbol;
/// - invalid UTF-8 (the library turns it into U+FFFD) and a literal U+2581 (it turns into a space): byte
/// tokens, so that the
///   text comes back exactly;
/// - speed and memory on long texts: see encode_run.
/// Normalization rules (precompiled_charsmap, remove_extra_whitespaces) are not applied: LLaMA vocabularies
/// are made without, and the library walks a hostile charsmap unchecked.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const Vocabulary& vocabulary) : vocabulary_(vocabulary), specials_({}) {
    check(vocabulary);
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
  [[nodiscard]] Role role_of(TokenId id) const { return roles_[static_cast<std::size_t>(id)]; }
  void encode_run(std::string_view run, std::vector<TokenId>& ids) const;
  void encode_word(std::string_view word, std::vector<TokenId>& ids, Words& known) const;
  void encode_bytes(std::string_view bytes, std::vector<TokenId>& ids) const;
  void append(std::span<const TokenId> more, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary_;
  sentencepiece::SentencePieceProcessor library_;
  SpecialTokens specials_;
  std::vector<Role> roles_;                       ///< by id
  std::array<TokenId, 256> byte_ids_{};           ///< by byte value
  std::optional<TokenId> stand_in_;               ///< the unknown token, if it stands in for missing bytes
  std::vector<TokenId> ids_of_library_;           ///< by the library's id
  std::unordered_set<std::uint64_t> neighbours_;  ///< pairs of characters that occur inside some token
};

std::uint64_t pair_key(char32_t left, char32_t right) { return (std::uint64_t{left} << 32) | right; }

void SentencePieceTokenizer::assign_roles() {
  const Roles roles(vocabulary_);
  const auto n = static_cast<TokenId>(vocabulary_.tokens.size());
  std::vector<SpecialTokens::Entry> special;
  std::optional<TokenId> unknown = vocabulary_.unk;
  byte_ids_.fill(kNone);
  for (TokenId id = 0; id < n; ++id) {
    const std::string_view text = text_of(id);
    const Role role = roles_.emplace_back(roles.of(id));
    if (!unknown && vocabulary_.types[static_cast<std::size_t>(id)] == TokenType::Unknown) unknown = id;
    if (role == Role::Byte) {
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
    if (role == Role::Control) special.push_back({std::string(text), id, true});
    if (role == Role::UserDefined) special.push_back({with_spaces(text), id, false});
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
  ModelWriter model;
  std::unordered_map<std::string_view, TokenId> texts;
  const auto n = static_cast<TokenId>(vocabulary_.tokens.size());
  for (TokenId id = 0; id < n; ++id) {
    if (role_of(id) <= Role::Unused && !text_of(id).empty()) texts[text_of(id)] = id;
  }
  for (TokenId id = 0; id < n; ++id) {
    const auto at = texts.find(text_of(id));
    if (at == texts.end() || at->second != id) continue;
    const float score = vocabulary_.scores.empty() ? 0.0F : vocabulary_.scores[static_cast<std::size_t>(id)];
    model.piece(text_of(id), score, role_of(id) == Role::Unused ? ModelWriter::Unused : ModelWriter::Normal);
    ids_of_library_.push_back(id);
    note_neighbours(text_of(id));
  }
  for (std::size_t byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    model.piece({"<0x" + std::string{kHex[byte / 16], kHex[byte % 16], '>'}}, 0, ModelWriter::Byte);
    ids_of_library_.push_back(byte_ids_[byte]);
  }
  model.piece("\xFF", 0, ModelWriter::Unknown);  // demanded by the library; no text can spell it
  ids_of_library_.push_back(kNone);
  if (!texts.contains(kSpaceSymbol)) {
    model.piece(kSpaceSymbol, 0, ModelWriter::Normal);
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

/// Merges never cross a place whose two characters are neighbours in no token, so the run is cut there into
/// words, each is encoded once, and the ids are those of the run as a whole. The library alone needs some 60
/// bytes of memory per byte and the time of a sort; its int indices end at 2 GiB. The last resort, a cut
/// every MiB, is met only by a run of one character that long; there the seam may cost a token.
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
    case Role::Byte:
      return {static_cast<char>(byte_value(text_of(id)))};
    case Role::Control:
      return show_special ? std::string(text_of(id)) : std::string();
    default:
      return with_spaces(text_of(id));
  }
}

bool SentencePieceTokenizer::dummy_space_after(std::optional<TokenId> previous) const {
  return vocabulary_.add_space_prefix && (!previous || role_of(*previous) >= Role::Control);
}

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(const Vocabulary& vocabulary) {
  return std::make_unique<SentencePieceTokenizer>(vocabulary);
}

}  // namespace cria
