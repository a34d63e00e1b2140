#include "tokenizer/hf/vocabulary_builder.h"

#include "model/limits.h"
#include "model/plural.h"

namespace cria {
namespace {

// Merged last, if ever: as other converters write them.
constexpr float kExtraScore = -1000;

}  // namespace

VocabularyBuilder::VocabularyBuilder(std::size_t tokens, std::string file)
    : file_(std::move(file)), used_(tokens) {
  vocabulary_.tokens.resize(tokens);
  vocabulary_.types.resize(tokens, TokenType::Unused);
  vocabulary_.scores.resize(tokens, kExtraScore);
}

void VocabularyBuilder::set(std::uint64_t id, std::string_view text, TokenType type, float score) {
  if (text.size() > limits::kTokenBytes)
    throw Error(file_,
                "token too long: expected at most " + std::to_string(limits::kTokenBytes) +
                    " bytes, got " + std::to_string(text.size()),
                "token " + std::to_string(id));
  if (const auto old = ids_.find(vocabulary_.tokens[id]);
      old != ids_.end() && old->second == static_cast<TokenId>(id))
    ids_.erase(old);
  vocabulary_.tokens[id] = texts_.emplace_back(text);
  vocabulary_.types[id] = type;
  vocabulary_.scores[id] = score;
  used_[id] = true;
  ids_.insert_or_assign(vocabulary_.tokens[id], static_cast<TokenId>(id));
}

void VocabularyBuilder::add(std::uint64_t id, std::string_view text, TokenType type, float score) {
  if (id >= used_.size()) {
    ++left_out_;
    return;
  }
  if (used_[id])
    throw Error(file_,
                "two tokens of one id: " + std::string(vocabulary_.tokens[id]) + " and " +
                    std::string(text),
                "token " + std::to_string(id));
  set(id, text, type, score);
}

void VocabularyBuilder::add_extra(std::uint64_t id, std::string_view text, bool special) {
  if (id >= used_.size()) {
    ++left_out_;
    return;
  }
  const TokenType type = special ? TokenType::Control : TokenType::UserDefined;
  if (!used_[id] || vocabulary_.tokens[id] != text) return set(id, text, type, kExtraScore);
  if (vocabulary_.types[id] == TokenType::Normal) vocabulary_.types[id] = type;
  if (special && vocabulary_.types[id] == TokenType::UserDefined) vocabulary_.types[id] = type;
}

void VocabularyBuilder::mark_control(TokenId id) {
  TokenType& type = vocabulary_.types[static_cast<std::size_t>(id)];
  if (type == TokenType::Normal || type == TokenType::UserDefined) type = TokenType::Control;
}

std::optional<TokenId> VocabularyBuilder::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

void VocabularyBuilder::fill_holes() {
  if (left_out_ > 0)
    vocabulary_.warnings.push_back("left out: " + counted(left_out_, "token") +
                                   "; the model has embeddings for " +
                                   std::to_string(used_.size()) + " only");
  for (std::size_t id = 0; id < used_.size(); ++id) {
    if (!used_[id]) set(id, "[PAD" + std::to_string(id) + "]", TokenType::Unused, kExtraScore);
  }
}

}  // namespace cria
