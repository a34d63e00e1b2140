// What generation_config.json says of sampling, as keys of a GGUF file, and back.
#pragma once

#include <string>
#include <vector>

#include "model/gguf/writer.h"

namespace cria {

/// Sets general.sampling.* to what the directory's generation_config.json says: temperature, top_k,
/// top_p, min_p, repetition_penalty. Nothing where there is no such file, or where it says
/// "do_sample": false (then they have no effect there). warnings: a line for each value that cannot
/// be. Throws Error for a file that is no JSON.
void set_sampling(GgufWriter& writer, const std::string& directory,
                  std::vector<std::string>& warnings);

/// The way back: the text of a generation_config.json with what the file says of these, the same
/// text where it says nothing. Greedy decoding is "do_sample": false there. Throws Error for a
/// value of a wrong type or out of range.
std::string with_sampling(const std::string& generation_config, const GgufFile& file);

}  // namespace cria
