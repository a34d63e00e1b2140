// Vocabularies for tests: the demo model's, and small ones made to order.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "model/gguf/gguf.h"
#include "model/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace cria::testing {

/// The demo model's vocabulary and tokenizer, opened once.
struct Demo {
  GgufFile file = GgufFile::open(CRIA_DATA "/cria-demo-Q8_0.gguf");
  Vocabulary vocabulary = Vocabulary::from_gguf(file);
  std::unique_ptr<Tokenizer> tokenizer = Tokenizer::create(vocabulary);
};

inline const Demo& demo() {
  static const Demo demo;
  return demo;
}

/// A vocabulary that grows token by token and owns their texts.
class SmallVocabulary {
 public:
  /// <unk> 0, <s> 1, </s> 2, and with bytes the 256 byte tokens from 3.
  explicit SmallVocabulary(bool bytes = true) {
    v_.model = "llama";
    v_.unk = add("<unk>", TokenType::Unknown);
    v_.bos = add("<s>", TokenType::Control);
    v_.eos = add("</s>", TokenType::Control);
    for (int byte = 0; bytes && byte < 256; ++byte) add(byte_text(byte), TokenType::Byte);
  }
  SmallVocabulary(const SmallVocabulary&) = delete;
  SmallVocabulary& operator=(const SmallVocabulary&) = delete;

  TokenId add(std::string text, TokenType type = TokenType::Normal, float score = 0) {
    v_.tokens.push_back(texts_.emplace_back(std::move(text)));
    v_.types.push_back(type);
    v_.scores.push_back(score);
    return static_cast<TokenId>(v_.tokens.size() - 1);
  }
  static std::string byte_text(int byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    return std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">";
  }
  Vocabulary* operator->() { return &v_; }
  Vocabulary& operator*() { return v_; }
  [[nodiscard]] std::unique_ptr<Tokenizer> tokenizer() const { return Tokenizer::create(v_); }

 private:
  std::deque<std::string> texts_;
  Vocabulary v_;
};

/// A byte-level vocabulary: <unk> 0, <|end|> 1 (control), the 256 bytes from 2, then what is
/// merged.
class BytePairs {
 public:
  explicit BytePairs(std::string pre = "gpt-2") {
    v_.model = "gpt2";
    v_.pre = std::move(pre);
    v_.add_space_prefix = false;
    add("<unk>", TokenType::Unknown);
    add("<|end|>", TokenType::Control);
    for (int byte = 0; byte < 256; ++byte) add(visible(std::string(1, static_cast<char>(byte))));
  }
  BytePairs(const BytePairs&) = delete;
  BytePairs& operator=(const BytePairs&) = delete;

  static TokenId byte(char c) { return 2 + static_cast<unsigned char>(c); }
  /// Bytes as such vocabularies write them: 0x21–0x7E, 0xA1–0xAC and 0xAE–0xFF as these characters,
  /// the others as U+0100 and on.
  static std::string visible(std::string_view bytes) {
    std::string out;
    for (const char c : bytes) {
      const auto value = static_cast<unsigned char>(c);
      unsigned code = value;
      if (value <= 0x20)
        code = 0x100 + value;
      else if (value >= 0x7F && value <= 0xA0)
        code = 0x121 + (value - 0x7FU);
      else if (value == 0xAD)
        code = 0x143;
      if (code < 0x80)
        out += static_cast<char>(code);
      else
        out += {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
    }
    return out;
  }
  TokenId add(std::string text, TokenType type = TokenType::Normal) {
    v_.tokens.push_back(texts_.emplace_back(std::move(text)));
    v_.types.push_back(type);
    return static_cast<TokenId>(v_.tokens.size() - 1);
  }
  /// The next merge and the token that it makes.
  TokenId merge(std::string_view left, std::string_view right) {
    v_.merges.push_back(texts_.emplace_back(visible(left) + " " + visible(right)));
    return add(visible(std::string(left) + std::string(right)));
  }
  Vocabulary* operator->() { return &v_; }
  [[nodiscard]] std::unique_ptr<Tokenizer> tokenizer() const { return Tokenizer::create(v_); }

 private:
  std::deque<std::string> texts_;
  Vocabulary v_;
};

using Ids = std::vector<TokenId>;

}  // namespace cria::testing
