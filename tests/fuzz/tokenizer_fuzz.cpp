// A vocabulary of odd tokens and a text, made from the bytes. The vocabulary is refused, or the
// text survives tokenizing, in one piece or many.
#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <deque>

#include "model/error.h"
#include "model/vocabulary.h"
#include "tests/fuzz/byte_source.h"
#include "tests/fuzz/target.h"
#include "tokenizer/bpe/pre_tokenizer.h"

namespace cria::fuzz {
namespace {

/// A small vocabulary of odd tokens, mostly with all bytes. Owns the texts.
struct OddVocabulary {
  std::deque<std::string> texts;
  Vocabulary v;

  explicit OddVocabulary(ByteSource& data) {
    const bool byte_pairs = data.flag(), complete = data.between(0, 9) < 9;
    const auto names = PreTokenizer::names();
    v.model = byte_pairs ? "gpt2" : "llama";
    v.pre = names[data.between(0, static_cast<std::uint32_t>(names.size() - 1))];
    add("<unk>", TokenType::Unknown);
    for (int byte = 0; complete && byte < 256; ++byte) add_byte(byte, byte_pairs);
    for (auto n = data.between(0, 40); n > 0; --n)
      add(data.text(12), static_cast<TokenType>(data.between(0, 6)));
    for (auto n = data.between(0, 20); n > 0; --n) add_pair(data);
    if (data.flag())
      for (std::size_t i = 0; i < v.tokens.size(); ++i)
        v.scores.push_back(data.number<std::int8_t>() % 10);
    if (data.flag()) v.bos = static_cast<TokenId>(data.between(0, 401)) - 1;
    v.add_bos = data.flag();
    v.add_space_prefix = data.flag();
    if (data.between(0, 9) == 9) v.unk = static_cast<TokenId>(data.between(0, 401)) - 1;
  }

  void add(std::string text, TokenType type) {
    v.tokens.push_back(texts.emplace_back(std::move(text)));
    v.types.push_back(type);
  }
  void add_byte(int byte, bool byte_pairs) {
    constexpr char kHex[] = "0123456789ABCDEF";
    if (byte_pairs)  // represents itself, even if it is not a character
      add(std::string(1, static_cast<char>(byte)), TokenType::Normal);
    else
      add({'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'}, TokenType::Byte);
  }
  /// Adds the concatenation of two tokens, and their merge.
  void add_pair(ByteSource& data) {
    const auto any = [&] {
      return v.tokens[data.between(0, static_cast<std::uint32_t>(v.tokens.size() - 1))];
    };
    const std::string left(any()), right(any());
    add(left + right, TokenType::Normal);
    v.merges.push_back(texts.emplace_back(left + " " + right));
  }
  /// True if texts must survive: no token replaces missing bytes.
  [[nodiscard]] bool round_trips(const std::vector<TokenId>& ids) const {
    return std::ranges::none_of(ids, [this](TokenId id) {
      return id == v.unk || v.types[static_cast<std::size_t>(id)] == TokenType::Unknown;
    });
  }
};

void check(const OddVocabulary& vocabulary, const Tokenizer& tokenizer, std::string_view text,
           bool special) {
  std::vector<std::size_t> ends;
  const std::vector<TokenId> ids = tokenizer.encode(text, false, special, &ends);
  require(tokenizer.encode(text, false, special) == ids, "other tokens the second time");
  require(ends.size() == ids.size() && std::ranges::is_sorted(ends), "ends out of order");
  require(ends.empty() || ends.back() <= text.size(), "an end beyond the text");
  if (vocabulary.round_trips(ids))
    require(tokenizer.decode(ids, true) == text, "another text than was encoded");

  StreamEncoder stream(tokenizer, false, special);
  std::vector<TokenId> streamed;
  for (std::size_t at = 0, n = 1; at < text.size(); at += n, n = n % 7 + 1) {
    const std::vector<TokenId> more = stream.push(text.substr(at, n));
    streamed.insert(streamed.end(), more.begin(), more.end());
  }
  const std::vector<TokenId> rest = stream.finish();
  streamed.insert(streamed.end(), rest.begin(), rest.end());
  require(streamed == ids, "other tokens in pieces");
}

void run_tokenizer(std::string_view input) {
  ByteSource data(input);
  const OddVocabulary vocabulary(data);
  const auto tokenizer = Tokenizer::create(vocabulary.v);
  const std::string text(data.rest());
  for (TokenId id = 0; id < static_cast<TokenId>(vocabulary.v.tokens.size()); ++id)
    static_cast<void>(tokenizer->piece(id, true));
  check(vocabulary, *tokenizer, text, false);
  check(vocabulary, *tokenizer, text, true);
  static_cast<void>(tokenizer->encode(text, true, true));
}

/// The input that makes OddVocabulary add all bytes, "ab", the control token "<s>", and a merge of
/// two tokens.
std::string seed_vocabulary_bytes(char byte_pairs, char pre) {
  const auto number = [](std::uint32_t n) {
    return std::string(reinterpret_cast<const char*>(&n), sizeof n);
  };
  const std::string tokens = {byte_pairs, '\0', pre, '\2', '\2', 'a', 'b',
                              '\1',       '\3', '<', 's',  '>',  '\3'};
  const std::string flags = {'\0', '\1'};  // no scores; BOS:
  const std::string more = {'\1', '\1', '\0'};
  return tokens + '\2' + number('a' + 1) + number('a' + 1) + number('b' + 1) + number('a' + 1) +
         flags + number(259) + more;
}

std::vector<std::string> tokenizer_seeds() {
  const std::string text =
      "Don't  say 12345 ab<s>, \xC3\xA9t\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87 x_y\n\n  \t!?";
  std::string word;  // too long for the simple merge algorithm
  for (int i = 0; i < 100; ++i) word += i % 7 == 0 ? "ba" : "a";
  word += " " + word;
  std::vector<std::string> out;
  for (char pre = 0; pre < 40; ++pre) {
    for (const char byte_pairs : {'\0', '\1'}) {
      if (byte_pairs == 0 && pre > 0) break;
      out.push_back(seed_vocabulary_bytes(byte_pairs, pre) + text);
      if (pre == 0) out.push_back(seed_vocabulary_bytes(byte_pairs, pre).append(word));
    }
  }
  return out;
}

}  // namespace

const Target kTokenizer{"tokenizer", run_tokenizer, tokenizer_seeds};

}  // namespace cria::fuzz
