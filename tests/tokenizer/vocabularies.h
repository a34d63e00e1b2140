// Vocabularies for tests: the demo model's, and small ones made to order.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "model/gguf.h"
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

using Ids = std::vector<TokenId>;

}  // namespace cria::testing
