// The tokens of fill in the middle: keys of GGUF files, and the texts that models give them.
#include "model/vocabulary.h"

namespace cria {
namespace {

using Member = std::optional<TokenId> FimTokens::*;

/// Keys without "tokenizer.ggml."; the last three are of older files.
constexpr std::pair<Member, std::string_view> kKeys[] = {
    {&FimTokens::pre, "fim_pre_token_id"}, {&FimTokens::suf, "fim_suf_token_id"},
    {&FimTokens::mid, "fim_mid_token_id"}, {&FimTokens::pad, "fim_pad_token_id"},
    {&FimTokens::rep, "fim_rep_token_id"}, {&FimTokens::sep, "fim_sep_token_id"},
    {&FimTokens::pre, "prefix_token_id"},  {&FimTokens::suf, "suffix_token_id"},
    {&FimTokens::mid, "middle_token_id"},
};

constexpr std::pair<Member, std::string_view> kTexts[] = {
    {&FimTokens::pre, "<|fim_prefix|>"},  {&FimTokens::suf, "<|fim_suffix|>"},
    {&FimTokens::mid, "<|fim_middle|>"},  {&FimTokens::pad, "<|fim_pad|>"},
    {&FimTokens::rep, "<|fim_repo|>"},    {&FimTokens::sep, "<|file_sep|>"},
    {&FimTokens::rep, "<|repo_name|>"},   {&FimTokens::pre, "<fim_prefix>"},
    {&FimTokens::suf, "<fim_suffix>"},    {&FimTokens::mid, "<fim_middle>"},
    {&FimTokens::pad, "<fim_pad>"},       {&FimTokens::rep, "<reponame>"},
    {&FimTokens::pre, "<fim-prefix>"},    {&FimTokens::suf, "<fim-suffix>"},
    {&FimTokens::mid, "<fim-middle>"},    {&FimTokens::pad, "<fim-pad>"},
    {&FimTokens::rep, "<fim-repo>"},      {&FimTokens::pre, "<|code_prefix|>"},
    {&FimTokens::suf, "<|code_suffix|>"}, {&FimTokens::mid, "<|code_middle|>"},
    {&FimTokens::pre, "<PRE>"},           {&FimTokens::suf, "<SUF>"},
    {&FimTokens::mid, "<MID>"},           {&FimTokens::pre, "▁<PRE>"},
    {&FimTokens::suf, "▁<SUF>"},          {&FimTokens::mid, "▁<MID>"},
    {&FimTokens::pre, "<｜fim▁begin｜>"}, {&FimTokens::suf, "<｜fim▁hole｜>"},
    {&FimTokens::mid, "<｜fim▁end｜>"},   {&FimTokens::pre, "[PREFIX]"},
    {&FimTokens::suf, "[SUFFIX]"},        {&FimTokens::mid, "[MIDDLE]"},
};

/// Returns nullopt also for 2^32 - 1, which converters write for a missing token.
std::optional<TokenId> token_at(const GgufFile& file, const std::string& key, std::size_t n_vocab) {
  const auto id = file.find_uint(key);
  if (!id || *id == UINT32_MAX) return std::nullopt;
  if (*id >= n_vocab)
    throw file.error("token outside the vocabulary: expected less than " + std::to_string(n_vocab) +
                         ", got " + std::to_string(*id),
                     "key " + key);
  return static_cast<TokenId>(*id);
}

}  // namespace

std::vector<TokenId> FimTokens::all() const {
  std::vector<TokenId> ids;
  for (const auto& id : {pre, suf, mid, pad, rep, sep})
    if (id) ids.push_back(*id);
  return ids;
}

FimTokens FimTokens::from_gguf(const GgufFile& file, const Vocabulary& vocabulary) {
  const std::size_t n_vocab = vocabulary.tokens.size();
  FimTokens out;
  for (const auto& [member, name] : kKeys) {
    const auto id = token_at(file, "tokenizer.ggml." + std::string(name), n_vocab);
    if (!(out.*member)) out.*member = id;
  }
  const bool typed = file.find("tokenizer.ggml.token_type") != nullptr;
  for (std::size_t i = 0; i < n_vocab; ++i) {
    const TokenType type = vocabulary.types[i];
    if (typed && type != TokenType::Control && type != TokenType::UserDefined) continue;
    for (const auto& [member, text] : kTexts)
      if (!(out.*member) && vocabulary.tokens[i] == text) out.*member = static_cast<TokenId>(i);
  }
  return out;
}

}  // namespace cria
