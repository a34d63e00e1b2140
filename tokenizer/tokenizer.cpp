#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "model/error.h"
#include "model/file/utf8.h"
#include "model/vocabulary.h"
#include "tokenizer/bpe/run_tokenizer.h"

namespace cria {

namespace {

/// Number of bytes at the end that begin an incomplete character.
std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    if (first_char(text.substr(text.size() - n)).truncated) return n;
  }
  return 0;
}

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool add_special, bool parse_special,
                                       std::vector<std::size_t>* ends) const {
  const TextPart part{text, parse_special};
  std::vector<TokenId> ids = encode_parts({&part, 1}, ends);
  const Vocabulary& v = vocabulary();
  if (add_special && v.add_bos && (ids.empty() || ids.front() != *v.bos)) {
    ids.insert(ids.begin(), *v.bos);
    if (ends != nullptr) ends->insert(ends->begin(), 0);
  }
  if (add_special && v.add_eos && (ids.empty() || ids.back() != *v.eos)) {
    ids.push_back(*v.eos);
    if (ends != nullptr) ends->push_back(text.size());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool show_special) const {
  StreamDecoder stream(*this, false, show_special);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text + stream.finish();
}

StreamEncoder::StreamEncoder(const Tokenizer& tokenizer, bool add_special, bool parse_special)
    : tokenizer_(tokenizer), add_special_(add_special), parse_special_(parse_special) {}

std::vector<TokenId> StreamEncoder::push(std::string_view text, std::vector<std::size_t>* ends) {
  const std::size_t searched = pending_.size();
  pending_ += text;
  if (ends != nullptr) ends->clear();
  const std::size_t seam = tokenizer_.last_safe_split(pending_, searched);
  return seam == 0 ? std::vector<TokenId>() : encode(seam, ends);
}

std::vector<TokenId> StreamEncoder::finish(std::vector<std::size_t>* ends) {
  std::vector<TokenId> ids = encode(pending_.size(), ends);
  const Vocabulary& v = tokenizer_.vocabulary();
  if (add_special_ && v.add_eos && last_ != v.eos) {
    ids.push_back(*v.eos);
    if (ends != nullptr) ends->push_back(offset_);
  }
  return ids;
}

std::vector<TokenId> StreamEncoder::encode(std::size_t bytes, std::vector<std::size_t>* ends) {
  const TextPart part{std::string_view(pending_).substr(0, bytes), parse_special_};
  std::vector<TokenId> ids = tokenizer_.encode_parts({&part, 1}, ends, offset_ > 0);
  if (ends != nullptr)
    for (std::size_t& end : *ends) end += offset_;
  const Vocabulary& v = tokenizer_.vocabulary();
  if (offset_ == 0 && add_special_ && v.add_bos && (ids.empty() || ids.front() != *v.bos)) {
    ids.insert(ids.begin(), *v.bos);
    if (ends != nullptr) ends->insert(ends->begin(), 0);
  }
  if (!ids.empty()) last_ = ids.back();
  offset_ += bytes;
  pending_.erase(0, bytes);
  return ids;
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool continues_text, bool show_special)
    : tokenizer_(tokenizer),
      strip_space_(!continues_text && tokenizer.dummy_space_after(std::nullopt)),
      show_special_(show_special) {}

std::string StreamDecoder::push(TokenId id) {
  const std::string piece = tokenizer_.piece(id, show_special_);
  const bool restarts = tokenizer_.dummy_space_after(id);
  pending_.append(piece, !restarts && strip_space_ && piece.starts_with(' ') ? 1 : 0);
  strip_space_ = restarts;
  std::string complete = std::move(pending_);
  const std::size_t tail = incomplete_tail(complete);
  pending_ = complete.substr(complete.size() - tail);
  complete.erase(complete.size() - tail);
  return complete;
}

std::string StreamDecoder::finish() { return std::exchange(pending_, {}); }

// The tokenizer that a vocabulary asks for.

std::unique_ptr<Tokenizer> Tokenizer::create(const Vocabulary& vocabulary) {
  if (vocabulary.model == "llama" || merges_are_listed(vocabulary))
    return make_sentencepiece_tokenizer(vocabulary);
  if (vocabulary.model == "gpt2") return make_byte_pair_tokenizer(vocabulary);
  if (vocabulary.model == "bert") return make_word_piece_tokenizer(vocabulary);
  if (vocabulary.model == "t5") return make_unigram_tokenizer(vocabulary);
  throw Error("",
              "unknown kind of tokenizer: expected llama (SentencePiece), gemma4, gpt2 "
              "(byte-level BPE), bert (WordPiece) or t5 (Unigram), got '" +
                  vocabulary.model + "'",
              "key tokenizer.ggml.model");
}

}  // namespace cria
