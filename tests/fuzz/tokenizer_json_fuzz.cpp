// tokenizer.json: read, used, written and read again.
#include "tokenizer/hf/formats.h"

#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "model/vocabulary.h"
#include "tests/fuzz/json_mutator.h"
#include "tokenizer/tokenizer.h"

namespace cria::fuzz {
namespace {

constexpr std::size_t kRows = 300;

void run_tokenizer_json(std::string_view input) {
  const std::string file = "fuzz";
  const SortedJson json = parse_sorted_json(input, file);
  VocabularyBuilder builder(kRows, file);
  read_tokenizer_json(json, file, {}, builder);
  builder.fill_holes();
  const Vocabulary& v = builder.vocabulary();
  require(v.tokens.size() == kRows && v.types.size() == kRows, "another number of tokens");
  try {
    const auto tokenizer = Tokenizer::create(v);
    const std::string text = "a ab\n\xC3\xA9 <s>don't 123";
    const auto ids = tokenizer->encode(text, true, true);
    static_cast<void>(tokenizer->decode(ids, true));
  } catch (const Error&) {  // some byte is not in the vocabulary
  }
  if (v.model != "gpt2") return;
  const SortedJson written = tokenizer_json(v);
  VocabularyBuilder again(kRows, file);
  read_tokenizer_json(
      SortedJson::parse(written.dump(-1, ' ', false, SortedJson::error_handler_t::replace)), file,
      {std::string(v.pre)}, again);
  again.fill_holes();
  require(again.vocabulary().merges.size() == v.merges.size(), "another number of merges");
}

SortedJson byte_level_vocabulary() {
  SortedJson vocabulary = SortedJson::object();
  int strange = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool shown = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    const int code = shown ? byte : strange++;
    vocabulary[code < 128 ? std::string(1, static_cast<char>(code))
                          : std::string{static_cast<char>(0xC0 | code >> 6),
                                        static_cast<char>(0x80 | (code & 63))}] = byte;
  }
  vocabulary["th"] = 258;
  return vocabulary;
}

std::vector<std::string> tokenizer_json_seeds() {
  std::vector<std::string> out;
  SortedJson byte_level = {
      {"added_tokens",
       {{{"id", 256}, {"content", "<s>"}, {"special", true}},
        {{"id", 259}, {"content", "x"}, {"special", false}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}}}},
      {"model", {{"type", "BPE"}, {"vocab", byte_level_vocabulary()}, {"merges", {"t h"}}}}};
  out.push_back(byte_level.dump());
  byte_level["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"ab", 2}, {"\u0120", 3}};
  byte_level["model"]["merges"] = {SortedJson::array({"a", "b"})};
  byte_level["model"]["ignore_merges"] = true;
  byte_level["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"behavior", "Isolated"},
         {"pattern",
          {{"Regex",
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
            "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}}}},
        {{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}}}}};
  out.push_back(byte_level.dump());
  byte_level["pre_tokenizer"]["pretokenizers"].erase(1);
  byte_level["post_processor"] = {{"type", "Sequence"},
                                  {"processors", {byte_level["post_processor"]}}};
  out.push_back(byte_level.dump());
  out.push_back(
      R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace"}]},"pre_tokenizer":{"type":"Metaspace","prepend_scheme":"first"},"model":{"type":"BPE","unk_token":"<unk>","byte_fallback":true,"vocab":{"<unk>":0,"<s>":1,"</s>":2,"<0x00>":3,"<0x41>":4,"▁":5,"a":6,"▁a":7},"merges":["▁ a"]},"added_tokens":[{"id":1,"content":"<s>","special":true}],"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{}},{"SpecialToken":{"id":"</s>"}}]}})");
  for (
      const char* const refused :
      {R"({"model":{"type":"Unigram","vocab":[["a",0]]}})", R"({})", R"([])", R"({"model":1})",
       R"({"model":{"type":"BPE"}})", R"({"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}})",
       R"({"model":{"type":"BPE","vocab":{"a":0,"b":0},"merges":[]}})",
       R"({"model":{"type":"BPE","vocab":{"a":999,"b":1},"merges":[]},"added_tokens":[{"id":999,"content":"x"}]})",
       R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["ab"]}})",
       R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[1]}})",
       R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[["a"]]}})",
       R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","b"]]},"pre_tokenizer":{"type":"ByteLevel"}})",
       R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Whitespace"}})",
       R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated"}})",
       R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"added_tokens":[{"id":"x","content":"x"}]})",
       R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"model":1})",
       "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "\"\xFF\"", "[1e999]"})
    out.emplace_back(refused);
  out.push_back(R"({"model":{"type":"BPE","vocab":{")" + std::string(70'000, 'x') +
                R"(":0},"merges":[]}})");
  return out;
}

std::vector<std::string> tokenizer_json_words() {
  return {"\"model\"",
          "\"vocab\"",
          "\"merges\"",
          "\"type\"",
          "\"BPE\"",
          "\"pre_tokenizer\"",
          "\"ByteLevel\"",
          "\"Split\"",
          "\"pattern\"",
          "\"Regex\"",
          "\"behavior\"",
          "\"Isolated\"",
          "\"Removed\"",
          "\"invert\"",
          "\"Digits\"",
          "\"Metaspace\"",
          "\"Prepend\"",
          "\"Punctuation\"",
          "\"added_tokens\"",
          "\"content\"",
          "\"special\"",
          "\"post_processor\"",
          "\"TemplateProcessing\"",
          "\"single\"",
          "\"SpecialToken\"",
          "\"normalizer\"",
          "\"ignore_merges\"",
          "\"<0x00>\"",
          "\"unk_token\"",
          "\"id\""};
}

}  // namespace

const Target kTokenizerJson{"tokenizer_json", run_tokenizer_json, tokenizer_json_seeds, mutate_json,
                            tokenizer_json_words};

}  // namespace cria::fuzz
