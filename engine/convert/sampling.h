// What generation_config.json says of sampling, as keys of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "model/gguf/writer.h"

namespace cria {

/// Sets general.sampling.* to what the directory's generation_config.json says: temperature, top_k, top_p, min_p,
/// repetition_penalty. Nothing where there is no such file, or where it says "do_sample": false (then they have no effect there).
/// warnings: a line for each value that cannot be. Throws Error for a file that is no JSON.
void set_sampling(GgufWriter& writer, const std::string& directory, std::vector<std::string>& warnings);

}  // namespace cria
