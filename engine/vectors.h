// Vectors and scores: embeddings of texts, and how well documents answer a query.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace cria {

/// Turns the hidden states of a text's tokens into vectors. Numbered as GGUF's ARCH.pooling_type.
enum class Pooling : std::uint8_t {
  None,   ///< a vector for each token
  Mean,   ///< their mean
  First,  ///< the first token's, "cls"
  Last,   ///< the last token's
  Rank,   ///< outputs of the classifier: one per label
};

/// Returns the pooling named "none", "mean", "cls", "last" or "rank"; throws Error for other names.
Pooling parse_pooling(std::string_view name);
/// The name that parse_pooling() takes; valid forever.
std::string_view name(Pooling pooling) noexcept;

/// Returns rank if the model has a classifier, else the file's pooling_type, else the mean. Throws
/// Error if pooling_type is unknown, or is rank without a classifier.
Pooling default_pooling(const Model& model);
/// Values of a vector: [n_embd], or as the model's last projection or classifier has them.
std::size_t vector_size(const Model& model, Pooling pooling);
/// Throws Error if the model cannot pool so, or (nullopt) if it does not predict tokens.
void check_output(const Model& model, std::optional<Pooling> pooling);

/// Embeds prompts: [n_prompts][vector_size()], each vector of length 1. None: the vectors of all
/// tokens, one after the other. Rank: the classifier's outputs as they are. Throws Error if one
/// cannot be evaluated.
std::vector<std::vector<float>> embed(Engine& engine, std::span<const std::vector<TokenId>> prompts,
                                      Pooling pooling, std::uint64_t scope = 0);

/// Returns the tokens of a query and a document for the classifier. The file's
/// tokenizer.chat_template.rerank has {query} and {document} for them; its control tokens count,
/// those in the texts do not. Without it: [BOS] query [EOS] [SEP] document [EOS], each token only
/// if the vocabulary adds it.
std::vector<TokenId> pair_tokens(const Model& model, std::string_view query,
                                 std::string_view document);
/// Returns the score, from 0 to 1, of a classifier's outputs: the sigmoid of a single one, else the
/// softmax's value for the label "yes", or for the first.
float relevance(const Model& model, std::span<const float> outputs);
/// Scores documents by a query. A score is the same alone or among others. Throws Error if the
/// model has no classifier, or a pair exceeds the context.
std::vector<float> rerank(Engine& engine, std::string_view query,
                          std::span<const std::string> documents, std::uint64_t scope = 0);

}  // namespace cria
