// The parts of a model file, each as text: metadata, tensors, chat template. (Metadata as JSON:
// metadata_json.h)
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/gguf/gguf.h"

namespace cria::tools {

/// A table of all keys; long values are cut short.
std::string keys_text(const GgufFile& file);

/// All tensors: name, dtype, shape, bytes.
std::string tensors_text(const GgufFile& file);
nlohmann::ordered_json tensors_json(const GgufFile& file);

/// The chat template as it stands in the file. Throws Error where there is none.
std::string template_text(const GgufFile& file);

}  // namespace cria::tools
