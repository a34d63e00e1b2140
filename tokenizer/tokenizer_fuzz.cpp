// libFuzzer entry: a vocabulary and a text out of the bytes. Whatever they are, the vocabulary is refused or
// the text comes back from its tokens, in one piece as in many.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdlib>
#include <deque>

#include "model/error.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace {

using cria::TokenId;
using cria::TokenType;

/// A vocabulary of a few odd tokens, mostly with all bytes. Owns the texts.
struct OddVocabulary {
  std::deque<std::string> texts;
  cria::Vocabulary v;

  explicit OddVocabulary(FuzzedDataProvider& data) {
    const bool byte_pairs = data.ConsumeBool(), complete = data.ConsumeIntegralInRange(0, 9) > 0;
    const auto names = cria::PreTokenizer::names();
    v.model = byte_pairs ? "gpt2" : "llama";
    v.pre = names[data.ConsumeIntegralInRange<std::size_t>(0, names.size() - 1)];
    add("<unk>", TokenType::Unknown);
    for (int byte = 0; complete && byte < 256; ++byte) add_byte(byte, byte_pairs);
    for (auto n = data.ConsumeIntegralInRange(0, 40); n > 0; --n)
      add(data.ConsumeRandomLengthString(12), static_cast<TokenType>(data.ConsumeIntegralInRange(0, 6)));
    for (auto n = data.ConsumeIntegralInRange(0, 20); n > 0; --n) add_pair(data);
    if (data.ConsumeBool())
      for (std::size_t i = 0; i < v.tokens.size(); ++i)
        v.scores.push_back(data.ConsumeIntegralInRange<std::int8_t>(-9, 9));
    if (data.ConsumeBool()) v.bos = data.ConsumeIntegralInRange<TokenId>(-1, 400);
    v.add_bos = data.ConsumeBool();
    v.add_space_prefix = data.ConsumeBool();
    if (data.ConsumeIntegralInRange(0, 9) == 0) v.unk = data.ConsumeIntegralInRange<TokenId>(-1, 400);
  }

  void add(std::string text, TokenType type) {
    v.tokens.push_back(texts.emplace_back(std::move(text)));
    v.types.push_back(type);
  }
  void add_byte(int byte, bool byte_pairs) {
    constexpr char kHex[] = "0123456789ABCDEF";
    if (byte_pairs)
      add(std::string(1, static_cast<char>(byte)),
          TokenType::Normal);  // stands for itself, also where it is no character
    else
      add({'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'}, TokenType::Byte);
  }
  /// Two tokens joined, and their merge.
  void add_pair(FuzzedDataProvider& data) {
    const auto any = [&] {
      return v.tokens[data.ConsumeIntegralInRange<std::size_t>(0, v.tokens.size() - 1)];
    };
    const std::string left(any()), right(any());
    add(left + right, TokenType::Normal);
    v.merges.push_back(texts.emplace_back(left + " " + right));
  }
  /// Whether texts come back by design: nothing stands in for missing bytes.
  [[nodiscard]] bool round_trips(const cria::Tokenizer& tokenizer, const std::vector<TokenId>& ids) const {
    for (const TokenId id : ids)
      if (id == v.unk || v.types[static_cast<std::size_t>(id)] == TokenType::Unknown) return false;
    return &tokenizer.vocabulary() == &v;
  }
};

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const OddVocabulary& vocabulary, const cria::Tokenizer& tokenizer, std::string_view text,
           bool special) {
  std::vector<std::size_t> ends;
  const std::vector<TokenId> ids = tokenizer.encode(text, false, special, &ends);
  require(tokenizer.encode(text, false, special) == ids);
  require(ends.size() == ids.size() && std::is_sorted(ends.begin(), ends.end()));
  require(ends.empty() || ends.back() <= text.size());
  if (vocabulary.round_trips(tokenizer, ids)) require(tokenizer.decode(ids, true) == text);

  cria::StreamEncoder stream(tokenizer, false, special);
  std::vector<TokenId> streamed;
  for (std::size_t at = 0, n = 1; at < text.size(); at += n, n = n % 7 + 1) {
    const std::vector<TokenId> more = stream.push(text.substr(at, n));
    streamed.insert(streamed.end(), more.begin(), more.end());
  }
  const std::vector<TokenId> rest = stream.finish();
  streamed.insert(streamed.end(), rest.begin(), rest.end());
  require(streamed == ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  const OddVocabulary vocabulary(data);
  try {
    const auto tokenizer = cria::Tokenizer::create(vocabulary.v);
    const std::string text = data.ConsumeRemainingBytesAsString();
    check(vocabulary, *tokenizer, text, false);
    check(vocabulary, *tokenizer, text, true);
    (void)tokenizer->encode(text, true, true);
    for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.v.tokens.size()); ++id)
      (void)tokenizer->piece(id, true);
  } catch (const cria::Error&) {
    // a vocabulary that cannot be used, or lacks a byte of the text
  }
  return 0;
}
