// Vocabularies in a file's metadata: their tokenizer, round trips of texts, and the equivalent
// files of a Hugging Face directory.
#include "model/vocabulary.h"
#include "tests/fuzz/gguf_mutator.h"
#include "tests/fuzz/refused_models.h"
#include "tests/fuzz/seed_models.h"
#include "tokenizer/chat/chat_template.h"
#include "tokenizer/hf/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace cria::fuzz {
namespace {

constexpr const char* kSamples[] = {"",
                                    " ",
                                    "ab a b\n",
                                    "<s>ab</s>a<|im_end|>",
                                    "\342\226\201a\xE2\x96\x81",
                                    "w12 w13\xFF\xC3\x28\xF0\x9F\x98\x80",
                                    "123456 don't  \t\r\n\n X",
                                    "<s> \n\xE2\x80\x83 a \xC2\xA0<|im_end|> \n"};

template <class Part>
void unless_refused(Part part) {
  try {
    part();
  } catch (const Error&) {
  }
}

void there_and_back(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::size_t> ends;
  const auto ids = tokenizer.encode(text, false, false, &ends);
  require(ends.size() == ids.size() && (ends.empty() || ends.back() <= text.size()),
          "ends beyond the text");
  const Vocabulary& v = tokenizer.vocabulary();
  bool exact = true;
  for (const TokenId id : ids) {
    require(id >= 0 && static_cast<std::size_t>(id) < v.tokens.size(), "invalid token");
    exact = exact && id != v.unk && v.types[static_cast<std::size_t>(id)] != TokenType::Unknown;
  }
  if (exact) require(tokenizer.decode(ids, true) == text, "another text than was encoded");
  StreamDecoder decoder(tokenizer, false, true);
  std::string streamed;
  for (const TokenId id : ids) streamed += decoder.push(id);
  require(streamed + decoder.finish() == tokenizer.decode(ids, true), "another text in pieces");
}

void use(const GgufFile& file) {
  const Vocabulary v = Vocabulary::from_gguf(file);
  const auto size = static_cast<TokenId>(v.tokens.size());
  for (const auto& id : {v.bos, v.eos, v.unk, v.sep, v.pad, v.eot, v.eom})
    require(!id || (*id >= 0 && *id < size), "invalid special token");
  for (const TokenId id : v.end_of_generation) require(id >= 0 && id < size, "invalid end token");
  require(v.types.size() == v.tokens.size(), "types for other tokens");
  require(v.scores.empty() || v.scores.size() == v.tokens.size(), "scores for other tokens");
  unless_refused([&] { static_cast<void>(hf_vocabulary_files(v)); });
  const auto tokenizer = Tokenizer::create(v);
  for (const char* sample : kSamples) unless_refused([&] { there_and_back(*tokenizer, sample); });
  for (const char* key : {"general.name", "tokenizer.chat_template"})
    unless_refused([&] { there_and_back(*tokenizer, file.find_string(key).value_or("")); });
  for (TokenId id = 0; id < std::min(size, 300); ++id)
    static_cast<void>(tokenizer->piece(id, true));
  unless_refused([&] {
    static_cast<void>(ChatTemplate::from_vocabulary(v).encode(*tokenizer, {{"user", "a<s>b"}}, {}));
  });
}

void run_vocabulary(std::string_view input) {
  const std::vector<std::byte> copy(
      reinterpret_cast<const std::byte*>(input.data()),
      reinterpret_cast<const std::byte*>(input.data()) + input.size());
  use(GgufFile::from_bytes(copy, "fuzz", {.metadata_only = true}));
}

std::vector<std::string> vocabulary_seeds() {
  std::vector<std::string> out;
  for (const bool byte_pairs : {false, true}) {
    GgufForm form = seed_vocabulary(byte_pairs);
    out.push_back(form.bytes());
    form.set_text("general.name", "don't ab");
    form.set_text("tokenizer.ggml.pre", "qwen2");
    form.set("tokenizer.ggml.add_space_prefix", GgufType::Bool, bytes_of(std::uint8_t{0}));
    form.set("tokenizer.ggml.precompiled_charsmap", GgufType::Array,
             form.array(GgufType::U8, std::vector<std::uint8_t>{1, 0, 0}));
    form.set_text("tokenizer.chat_template", "chatml");
    form.set_u32("tokenizer.ggml.eot_token_id", 3);
    out.push_back(form.bytes());
    std::vector<std::string> tokens;  // every byte, so that all texts survive
    std::vector<std::int32_t> types;
    for (int byte = 0; byte < 256; ++byte) {
      constexpr char kHex[] = "0123456789ABCDEF";
      const bool shown = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      const int code = shown        ? byte
                       : byte <= 32 ? 256 + byte
                       : byte < 161 ? 256 + 33 + byte - 127
                                    : 256 + 67;
      const std::string stands_for = code < 128
                                         ? std::string(1, static_cast<char>(code))
                                         : std::string{static_cast<char>(0xC0 | code >> 6),
                                                       static_cast<char>(0x80 | (code & 63))};
      tokens.push_back(byte_pairs
                           ? stands_for
                           : std::string{'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'});
      types.push_back(byte_pairs ? 1 : 6);
    }
    for (const char* more : {"<unk>", "<s>", "</s>", "ab"}) tokens.emplace_back(more);
    for (const std::int32_t type : {2, 3, 3, 1}) types.push_back(type);
    form.set("tokenizer.ggml.tokens", GgufType::Array, form.array(GgufType::String, tokens));
    form.set("tokenizer.ggml.token_type", GgufType::Array, form.array(GgufType::I32, types));
    if (!byte_pairs)
      form.set("tokenizer.ggml.scores", GgufType::Array,
               form.array(GgufType::F32, std::vector<float>(260)));
    form.set_u32("tokenizer.ggml.bos_token_id", 257);
    form.set_u32("tokenizer.ggml.eos_token_id", 258);
    form.set_u32("tokenizer.ggml.unknown_token_id", 256);
    out.push_back(form.bytes());
  }
  for (std::string& vocabulary : refused_vocabularies()) out.push_back(std::move(vocabulary));
  return out;
}

}  // namespace

const Target kVocabulary{"vocabulary", run_vocabulary, vocabulary_seeds, mutate_gguf, gguf_words};

}  // namespace cria::fuzz
