// By which a side file (a session, a state, log-probabilities) knows the model that it belongs to,
// and ranks that they have the same.
#pragma once

#include <cstdint>

#include "model/file/binary_file.h"

namespace cria {

class Model;
struct Graph;
struct Vocabulary;

/// Of names, types and shapes of all tensors, and a piece of each one's data: fine-tuned siblings
/// differ.
std::uint64_t weights_fingerprint(const Model& model);
/// Of these, the end of each tensor's data and the file's size: other files of one origin differ,
/// such as those whose last tokens' embeddings were repaired.
std::uint64_t file_fingerprint(const Model& model);
/// Of all that keys, values and logits depend on but the tokens: the weights and what is computed
/// with them, RoPE's factors for this context among it (EngineOptions::rope_ctx). The same for all
/// kernels.
std::uint64_t computation_fingerprint(const Model& model, const Graph& graph, std::size_t rope_ctx);
/// Of the tokens' texts: quantizations of one model agree.
std::uint64_t vocabulary_fingerprint(const Vocabulary& vocabulary);

}  // namespace cria
