// tokenizer.json as it is written: the library's defaults are said, as its own files do.
#include <nlohmann/json.hpp>

#include "tokenizer/bpe/pre_tokenizer.h"
#include "tokenizer/hf/tokenizer_json.h"

namespace cria {
namespace {

using Json =
    nlohmann::json;  // sorted by key: an ordered object would search its 150,000 tokens one by one

bool is_added(TokenType type) {
  return type == TokenType::Control || type == TokenType::UserDefined || type == TokenType::Unknown;
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json list = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!is_added(vocabulary.types[id])) continue;
    list.push_back({{"id", id},
                    {"content", vocabulary.tokens[id]},
                    {"single_word", false},
                    {"lstrip", vocabulary.strips_before(static_cast<TokenId>(id))},
                    {"rstrip", vocabulary.strips_after(static_cast<TokenId>(id))},
                    {"normalized", false},
                    {"special", vocabulary.types[id] != TokenType::UserDefined}});
  }
  return list;
}

Json byte_pairs(const Vocabulary& vocabulary) {
  Json tokens = Json::object(), merges = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    // Added ones too: the library numbers those that are not here anew, after the last one.
    if (vocabulary.types[id] != TokenType::Unused) tokens[std::string(vocabulary.tokens[id])] = id;
  }
  for (const std::string_view merge : vocabulary.merges) merges.push_back(merge);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", PreTokenizer(vocabulary.pre).ignores_merges()},
          {"vocab", std::move(tokens)},
          {"merges", std::move(merges)}};
}

Json byte_level(const Vocabulary& vocabulary) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", vocabulary.add_space_prefix},
          {"trim_offsets", true},
          {"use_regex", false}};
}

Json pre_tokenizer(const Vocabulary& vocabulary) {
  Json steps = Json::array();
  for (const std::string& expression : PreTokenizer::expressions(vocabulary.pre))
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", expression}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  steps.push_back(byte_level(vocabulary));
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

/// What puts BOS before and EOS after one text ("A"), or two.
Json post_processor(const Vocabulary& vocabulary) {
  if (!vocabulary.add_bos && !vocabulary.add_eos) return byte_level(vocabulary);
  Json special = Json::object();
  const auto parts = [&](const char* sequence, int type) {
    Json list = Json::array();
    const auto put = [&](bool adds, std::optional<TokenId> id) {
      if (!adds || !id) return;
      const std::string text(vocabulary.tokens[static_cast<std::size_t>(*id)]);
      list.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
      special[text] = {{"id", text}, {"ids", Json::array({*id})}, {"tokens", Json::array({text})}};
    };
    put(vocabulary.add_bos, vocabulary.bos);
    list.push_back({{"Sequence", {{"id", sequence}, {"type_id", type}}}});
    put(vocabulary.add_eos, vocabulary.eos);
    return list;
  };
  const Json single = parts("A", 0);
  Json pair = single;
  for (const Json& part : parts("B", 1)) pair.push_back(part);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

}  // namespace

Json tokenizer_json(const Vocabulary& vocabulary) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(vocabulary)},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer(vocabulary)},
          {"post_processor", post_processor(vocabulary)},
          {"decoder", byte_level(vocabulary)},
          {"model", byte_pairs(vocabulary)}};
}

}  // namespace cria
