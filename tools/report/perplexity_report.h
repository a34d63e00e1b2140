// What `cria perplexity` says.
#pragma once

#include <string>

#include "engine/evaluate/perplexity.h"

namespace cria::tools {

/// Lines for people / an object for programs (its keys: `cria perplexity --help`).
std::string perplexity_text(const PerplexityResult& result, const PerplexityOptions& options,
                            double tokens_per_second);
std::string perplexity_json(const PerplexityResult& result, const PerplexityOptions& options,
                            double tokens_per_second);

}  // namespace cria::tools
