// Text <-> token ids: the public header of tokenizer/.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/token_id.h"

namespace cria {

struct Vocabulary;

/// A piece of a text that has several authors.
struct TextPart {
  std::string_view text;  ///< as it is
  bool trusted;           ///< control tokens written in it become their ids
};

/// Immutable after creation; safe to use from several threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Throws Error if the vocabulary cannot be used (unknown model: lists the known ones). The
  /// vocabulary must outlive the tokenizer.
  static std::unique_ptr<Tokenizer> create(const Vocabulary& vocabulary);

  /// Token ids of the text's bytes as they are (NUL and invalid UTF-8 included). add_special:
  /// BOS/EOS as the vocabulary says, never a second BOS if the text already starts with it.
  /// parse_special: control tokens written in the text become their ids, else plain text. ends (if
  /// not null): for every token the offset in the text at which its bytes end; they begin where
  /// those of the token before it end (0 for the first).
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special,
                                            bool parse_special,
                                            std::vector<std::size_t>* ends = nullptr) const;
  /// Token ids of the parts as one text, no BOS or EOS added. Words may span parts; a control token
  /// is found only within one trusted part. ends: as above, in the parts joined. continues_text:
  /// the parts follow other text, so there is no dummy space in front.
  [[nodiscard]] virtual std::vector<TokenId> encode_parts(std::span<const TextPart> parts,
                                                          std::vector<std::size_t>* ends = nullptr,
                                                          bool continues_text = false) const = 0;
  /// The last place, not before `from`, at which a text may be cut so that the ids of its parts are
  /// those of the whole, whatever text follows; 0 if there is none.
  [[nodiscard]] virtual std::size_t last_seam(std::string_view text,
                                              std::size_t from = 0) const = 0;
  /// The bytes a token stands for. Control tokens give "" unless show_special. Throws Error if the
  /// vocabulary has no such id.
  [[nodiscard]] virtual std::string piece(TokenId id, bool show_special = false) const = 0;
  /// Whether the text after this token (nullopt: at the start) was given a dummy space by encode,
  /// which is no part of the text.
  [[nodiscard]] virtual bool dummy_space_after(std::optional<TokenId> previous) const = 0;
  /// The bytes of a sequence as its text (the dummy prefix of the first token is removed):
  /// decode(encode(x))
  /// == x.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool show_special = false) const;
  [[nodiscard]] virtual const Vocabulary& vocabulary() const noexcept = 0;  ///< that it was made of
};

/// Turns text into tokens as it arrives; together they are those of Tokenizer::encode. Holds back
/// no more than the text since the last seam (a few words).
class StreamEncoder {
 public:
  /// As in Tokenizer::encode.
  StreamEncoder(const Tokenizer& tokenizer, bool add_special, bool parse_special);
  /// The tokens that are certain after this text. ends (if not null): as in encode, in the whole
  /// text.
  [[nodiscard]] std::vector<TokenId> push(std::string_view text,
                                          std::vector<std::size_t>* ends = nullptr);
  /// The rest.
  [[nodiscard]] std::vector<TokenId> finish(std::vector<std::size_t>* ends = nullptr);

 private:
  std::vector<TokenId> encode(std::size_t bytes, std::vector<std::size_t>* ends);

  const Tokenizer& tokenizer_;
  std::string pending_;
  std::size_t offset_ = 0;       ///< of pending_ in the whole text
  std::optional<TokenId> last_;  ///< the last token, BOS included
  bool add_special_, parse_special_;
};

/// Turns tokens into text as they arrive; never emits half a UTF-8 character.
class StreamDecoder {
 public:
  /// continues_text: tokens follow other text (an answer after a prompt): no dummy prefix is
  /// removed.
  StreamDecoder(const Tokenizer& tokenizer, bool continues_text, bool show_special = false);
  /// The text that is complete after this token (maybe "").
  [[nodiscard]] std::string push(TokenId id);
  /// What is left at the end: incomplete bytes as they are.
  [[nodiscard]] std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
  bool strip_space_;
  bool show_special_;
};

}  // namespace cria
