// Parts of a Model, and fingerprints by which a side file (a session, a state, log-probabilities)
// recognizes its model and ranks compare theirs. Not installed: session.h and model.h do not need
// them.
#pragma once

#include <cstdint>

#include "engine/graph/graph.h"
#include "kernels/attention/attention.h"
#include "model/config.h"
#include "model/file/binary_file.h"
#include "model/gguf/gguf.h"
#include "model/vocabulary.h"

namespace cria {

class Model;

/// Hash of names, types and shapes of all tensors and of a piece of each tensor's data. Fine-tuned
/// siblings differ.
std::uint64_t weights_fingerprint(const GgufFile& file);
/// The same, with the adapters that the model was loaded with.
std::uint64_t weights_fingerprint(const Model& model);
/// Adds the end of each tensor's data and the file's size, which differ between repaired versions
/// of a file, for example.
std::uint64_t file_fingerprint(const Model& model);
/// Hash of everything that keys, values and logits depend on except the tokens: the weights and the
/// computation, including RoPE's factors for this context (EngineOptions::rope_ctx). It is the same
/// for all kernels.
std::uint64_t computation_fingerprint(const Model& model, const Graph& graph, std::size_t rope_ctx);
/// Hash of the tokens' texts. Quantizations of one model agree.
std::uint64_t vocabulary_fingerprint(const Vocabulary& vocabulary);

}  // namespace cria
