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

  /// Returns the token ids of the text's bytes (NUL and invalid UTF-8 included). add_special adds
  /// BOS and EOS as the vocabulary says, never a second BOS. parse_special turns control tokens in
  /// the text into their ids. ends (if not null) gets the end offset of each token in the text; a
  /// token begins where the one before it ends.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool add_special,
                                            bool parse_special,
                                            std::vector<std::size_t>* ends = nullptr) const;
  /// Returns the token ids of the parts as one text, without BOS or EOS. Words may span parts; a
  /// control token must lie within one trusted part. ends: as above, in the joined parts.
  /// continues_text: the parts follow other text, so no dummy space is added.
  [[nodiscard]] virtual std::vector<TokenId> encode_parts(std::span<const TextPart> parts,
                                                          std::vector<std::size_t>* ends = nullptr,
                                                          bool continues_text = false) const = 0;
  /// Returns the last safe split point at or after `from`, or 0. Encoding both sides gives the ids
  /// of the whole text, whatever follows.
  [[nodiscard]] virtual std::size_t last_safe_split(std::string_view text,
                                                    std::size_t from = 0) const = 0;
  /// The bytes a token stands for. Control tokens give "" unless show_special. Throws Error if the
  /// vocabulary has no such id.
  [[nodiscard]] virtual std::string piece(TokenId id, bool show_special = false) const = 0;
  /// True if encode puts a dummy space, which is not part of the text, after this token (nullopt:
  /// at the start).
  [[nodiscard]] virtual bool dummy_space_after(std::optional<TokenId> previous) const = 0;
  /// The bytes of a sequence as its text (the dummy prefix of the first token is removed):
  /// decode(encode(x)) == x, but for vocabularies that normalize texts (bert, t5).
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool show_special = false) const;
  [[nodiscard]] virtual const Vocabulary& vocabulary()
      const noexcept = 0;  ///< as given to create()
};

/// Turns text into tokens as it arrives; the result equals Tokenizer::encode. Holds back the text
/// since the last safe split point (a few words).
class StreamEncoder {
 public:
  /// Options as in Tokenizer::encode.
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
  std::size_t offset_ = 0;       ///< offset of pending_ in the whole text
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
  /// Returns incomplete bytes left at the end.
  [[nodiscard]] std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
  bool strip_space_;
  bool show_special_;
};

}  // namespace cria
