// What the tokenizer of a model file is: its kind, its tokens with a use of their own.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/gguf/gguf.h"

namespace cria::tools {

/// Where the vocabulary is missing or cannot be read: "no vocabulary", with a warning for the
/// latter.
std::string tokenizer_text(const GgufFile& file);
/// The same; null without a vocabulary.
nlohmann::ordered_json tokenizer_json(const GgufFile& file);

}  // namespace cria::tools
