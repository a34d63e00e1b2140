// By which a side file (a session, a state, log-probabilities) knows the model that it belongs to.
#pragma once

#include <cstdint>

#include "model/file/hash.h"

namespace cria {

class Model;
struct Vocabulary;

/// Of names, types and shapes of all tensors, and a piece of each one's data: fine-tuned siblings differ.
std::uint64_t fingerprint(const Model& model);
/// Of the tokens' texts: quantizations of one model agree.
std::uint64_t fingerprint(const Vocabulary& vocabulary);

}  // namespace cria
