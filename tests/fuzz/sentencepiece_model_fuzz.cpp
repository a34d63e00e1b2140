// tokenizer.model: any bytes are either a valid file, which survives a round trip, or an Error.
#include "tokenizer/hf/formats.h"

#include "tests/fuzz/target.h"

namespace cria::fuzz {
namespace {

constexpr std::size_t kPieces = 64;

void run_sentencepiece_model(std::string_view input) {
  VocabularyBuilder first(kPieces, "fuzz"), second(kPieces, "fuzz");
  read_sentencepiece_model(std::as_bytes(std::span(input)), "fuzz", first);
  first.fill_holes();
  const std::string bytes = sentencepiece_model(first.vocabulary());
  read_sentencepiece_model(std::as_bytes(std::span(bytes)), "fuzz", second);
  require(first.vocabulary().tokens == second.vocabulary().tokens &&
              first.vocabulary().types == second.vocabulary().types,
          "another vocabulary the second time");
}

std::vector<std::string> sentencepiece_model_seeds() {
  std::vector<std::string> out;
  for (const bool plain : {true, false}) {
    VocabularyBuilder builder(kPieces, "seed");
    Vocabulary& v = builder.vocabulary();
    v.model = "llama";
    v.unk = 0;
    v.bos = 1;
    if (plain) v.eos = 2;
    v.add_space_prefix = plain;
    v.remove_extra_whitespaces = !plain;
    if (!plain) v.precompiled_charsmap = "map";
    builder.add(0, "<unk>", TokenType::Unknown);
    builder.add(1, "<s>", TokenType::Control);
    builder.add(2, "</s>", TokenType::Control);
    builder.add(3, "<0x0A>", TokenType::Byte);
    builder.add(4,
                "\xE2\x96\x81"
                "a",
                TokenType::Normal, -1);
    builder.add(5, "b", TokenType::UserDefined, -2);
    builder.fill_holes();
    const std::string whole = sentencepiece_model(v);
    out.push_back(whole);
    for (const char* const more : {"\x0A\x02\x18\x09", "\x0A\x04\x20\x01\x0A\x00", "\x78\x01",
                                   "\x12\x04\x18\x01\x50\x01", "\x1A\x02\x50\x01", "\x0A\x70"})
      out.push_back(whole + more);  // invalid type, unknown fields, truncated
  }
  out.emplace_back("\x12\x02\x18\x02");  // no pieces
  return out;
}

}  // namespace

const Target kSentencePieceModel{"sentencepiece_model", run_sentencepiece_model,
                                 sentencepiece_model_seeds};

}  // namespace cria::fuzz
