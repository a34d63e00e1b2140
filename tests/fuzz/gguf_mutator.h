// Changes GGUF files key by key and tensor by tensor, so that most of them get past the header.
#pragma once

#include "tests/fuzz/target.h"

namespace cria::fuzz {

/// For Target::mutate. Returns "" if the input is not a GGUF file.
std::string mutate_gguf(std::string_view input, Random& random, std::size_t max_bytes);
/// Names of keys, types and tensors.
std::vector<std::string> gguf_words();

/// Returns an edge case: near a power of two, the largest, a small number.
std::uint64_t odd_number(Random& random);
float odd_float(Random& random);

}  // namespace cria::fuzz
