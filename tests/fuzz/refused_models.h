// GGUF files that are refused, one for every reason: what follows a refusal is never reached, so
// each is an input of its own.
#pragma once

#include <string>
#include <vector>

namespace cria::fuzz {

/// A small model with one thing wrong (or odd, but tolerated) in its keys or its tensors.
std::vector<std::string> refused_models();
/// The keys of a vocabulary alone, likewise.
std::vector<std::string> refused_vocabularies();

}  // namespace cria::fuzz
