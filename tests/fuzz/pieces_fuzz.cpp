// Vocabularies that normalize texts: WordPiece, and Unigram with any bytes as its charsmap. A
// vocabulary is refused, or every text has tokens within its bounds, the same each time.
#include <algorithm>
#include <deque>

#include "model/vocabulary.h"
#include "tests/fuzz/byte_source.h"
#include "tests/fuzz/target.h"
#include "tokenizer/tokenizer.h"

namespace cria::fuzz {
namespace {

struct PieceVocabulary {
  std::deque<std::string> texts;
  Vocabulary v;

  PieceVocabulary(ByteSource& data, const char* model) {
    v.model = model;
    v.lower_case = data.flag();
    v.strip_accents = data.flag();
    v.add_space_prefix = data.flag();
    v.remove_extra_whitespaces = data.flag();
    add("<unk>", TokenType::Unknown, 0);
    for (auto n = data.between(0, 40); n > 0; --n) {
      const std::string start = data.flag() ? "\xE2\x96\x81" : "";
      const auto type = static_cast<TokenType>(data.between(0, 6));
      const std::string text = data.text(12);
      add(start + text, type, data.number<std::int8_t>());
    }
    if (v.model == "t5") v.precompiled_charsmap = data.text(600);
  }
  void add(std::string text, TokenType type, float score) {
    v.tokens.push_back(texts.emplace_back(std::move(text)));
    v.types.push_back(type);
    v.scores.push_back(score);
  }
};

void run_pieces(std::string_view input, const char* model) {
  ByteSource data(input);
  const PieceVocabulary vocabulary(data, model);
  const auto tokenizer = Tokenizer::create(vocabulary.v);
  const std::string text(data.rest());
  for (const bool special : {false, true}) {
    std::vector<std::size_t> ends;
    const std::vector<TokenId> ids = tokenizer->encode(text, false, special, &ends);
    require(tokenizer->encode(text, false, special) == ids, "other tokens the second time");
    require(ends.size() == ids.size() && std::ranges::is_sorted(ends), "ends out of order");
    require(ends.empty() || ends.back() <= text.size(), "an end beyond the text");
    static_cast<void>(tokenizer->decode(ids, true));
    StreamEncoder stream(*tokenizer, false, special);
    std::vector<TokenId> streamed;
    for (std::size_t at = 0; at < text.size(); at += 5) {
      const std::vector<TokenId> more = stream.push(std::string_view(text).substr(at, 5));
      streamed.insert(streamed.end(), more.begin(), more.end());
    }
    const std::vector<TokenId> rest = stream.finish();
    streamed.insert(streamed.end(), rest.begin(), rest.end());
    require(streamed == ids, "other tokens in pieces");
  }
}

/// Four flags, two tokens, a charsmap that makes "b" of "a" (Unigram), and a text.
std::vector<std::string> seeds(bool unigram) {
  const std::string tokens = {'\1', '\1', '\1',   '\1', '\2', '\1', '\1', '\2',
                              'a',  'b',  '\xFF', '\0', '\1', '\1', 'c',  '\xFE'};
  const auto unit = [](std::uint32_t n) {
    return std::string(reinterpret_cast<const char*>(&n), sizeof n);
  };
  // The root's offset is 1. Unit 1 ^ 'a' has the label 'a', and its value (0) is at offset 1.
  constexpr std::uint32_t kNode = 1 ^ 'a';
  std::string units;
  for (std::uint32_t i = 0; i < kNode + 2; ++i)
    units += unit(i == 0 ? 1U << 10U : i == kNode ? 0x100U | 1U << 10U | 'a' : 0);
  const std::string map =
      unit(static_cast<std::uint32_t>(units.size())) + units + std::string("b\0", 2);
  std::vector<std::string> out;
  for (const char* const text : {"ab  a c\xC3\xA9 \xEF\xBC\xA1 x", "A, \xE6\xB0\xB4!\xFF", ""}) {
    std::string seed = tokens;
    if (unigram) seed += unit(static_cast<std::uint32_t>(map.size())) + map;
    out.push_back(seed + text);
  }
  return out;
}

}  // namespace

const Target kWordPiece{"word_piece", [](std::string_view input) { run_pieces(input, "bert"); },
                        [] { return seeds(false); }};
const Target kUnigram{"unigram", [](std::string_view input) { run_pieces(input, "t5"); },
                      [] { return seeds(true); }};

}  // namespace cria::fuzz
