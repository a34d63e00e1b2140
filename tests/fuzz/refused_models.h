// GGUF files that are refused, one for every reason. A refusal ends the reading, so each is a
// separate input.
#pragma once

#include <string>
#include <vector>

namespace cria::fuzz {

/// A small model with one error (or tolerated oddity) in its keys or tensors.
std::vector<std::string> refused_models();
/// The same for files that have only the keys of a vocabulary.
std::vector<std::string> refused_vocabularies();

}  // namespace cria::fuzz
