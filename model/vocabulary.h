// The vocabulary that a GGUF file carries (tokenizer.ggml.*), read and checked; no tokenization
// here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/gguf/gguf.h"
#include "model/token_id.h"

namespace cria {

enum class TokenType : std::uint8_t {
  Undefined,
  Normal,
  Unknown,
  Control,
  UserDefined,
  Unused,
  Byte
};

/// The value of a byte token as SentencePiece writes it, 10 of "<0x0A>", or -1.
int byte_value(std::string_view text);

struct Vocabulary;

/// The tokens of prompts that ask to fill a gap in a text (FIM, fill in the middle).
struct FimTokens {
  std::optional<TokenId> pre, suf,
      mid;                          ///< before the prefix, before the suffix, before the answer
  std::optional<TokenId> pad;       ///< padding
  std::optional<TokenId> rep, sep;  ///< before the name of a repository, of a file

  /// True if the model can fill in the middle.
  [[nodiscard]] bool complete() const { return pre && suf && mid; }
  /// Returns the tokens that exist; each ends an answer that fills a gap.
  [[nodiscard]] std::vector<TokenId> all() const;
  /// Reads the keys of the file; the texts of its control tokens fill in what they leave out.
  /// Throws Error for a token outside the vocabulary.
  static FimTokens from_gguf(const GgufFile& file, const Vocabulary& vocabulary);
};

/// Views point into the GgufFile it was read from.
struct Vocabulary {
  std::string file;   ///< where it comes from, for errors; "" if from none
  std::string model;  ///< tokenizer.ggml.model: "llama", "gpt2", …
  std::string pre;    ///< tokenizer.ggml.pre or "" (the tokenizer takes "default")
  std::vector<std::string_view> tokens;  ///< by id; bytes, not necessarily unique
  std::vector<float> scores;             ///< empty or one per token
  std::vector<TokenType> types;          ///< one per token (Normal where the file says nothing)
  std::vector<std::string_view> merges;  ///< BPE
  std::optional<TokenId> bos, eos, unk, sep, pad, eot, eom;
  /// eos, eot, eom and control tokens known by their text (<|im_end|>, <|eot_id|>, <end_of_turn>,
  /// …).
  std::vector<TokenId> end_of_generation;
  FimTokens fim;
  std::vector<TokenId> suppressed;  ///< tokens that are never drawn
  std::vector<TokenId> strip_before,
      strip_after;                        ///< tokens that swallow the white space there, sorted
  bool add_bos = false, add_eos = false;  ///< defaults by model where the file says nothing
  bool add_sep = false;                   ///< sep divides pairs of texts, after eos
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = false;
  bool lower_case = true;            ///< WordPiece: texts are put in lower case
  bool strip_accents = true;         ///< WordPiece: marks are removed from letters
  std::string precompiled_charsmap;  ///< bytes of the SentencePiece normalizer, mostly empty
  std::string chat_template;         ///< tokenizer.chat_template or ""
  std::string tool_template;         ///< the one for requests with tools, or ""
  std::vector<std::string> warnings;

  /// True if a token strips the white space before it, or after it.
  [[nodiscard]] bool strips_before(TokenId id) const {
    return std::ranges::binary_search(strip_before, id);
  }
  [[nodiscard]] bool strips_after(TokenId id) const {
    return std::ranges::binary_search(strip_after, id);
  }

  static Vocabulary from_gguf(const GgufFile& file);
};

}  // namespace cria
