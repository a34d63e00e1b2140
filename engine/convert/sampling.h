// Sampling options: generation_config.json to keys of a GGUF file, and back.
#pragma once

#include <string>
#include <vector>

#include "model/gguf/writer.h"

namespace cria {

/// Sets general.sampling.* from the directory's generation_config.json: temperature, top_k, top_p,
/// min_p, repetition_penalty. Does nothing without such a file or if it has "do_sample": false.
/// Adds a warning for each value out of range. Throws Error if the file is not JSON.
void set_sampling(GgufWriter& writer, const std::string& directory,
                  std::vector<std::string>& warnings);

/// Returns the text of a generation_config.json with the file's values of these keys added; the
/// same text if the file has none. Greedy decoding becomes "do_sample": false. Throws Error for a
/// value of a wrong type or out of range.
std::string with_sampling(const std::string& generation_config, const GgufFile& file);

}  // namespace cria
