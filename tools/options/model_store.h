// Models that are on this machine already: $CRIA_MODELS, the Hugging Face cache, ollama's store,
// and the one that comes with the program. Nothing there is changed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cria::tools {

struct KnownModel {
  std::string name;         ///< what -m takes: "TheBloke/Mistral-7B/mistral.Q4_K_M", "llama3:8b"
  std::string place;        ///< "CRIA_MODELS", "Hugging Face", "ollama", "bundled"
  std::string path;         ///< the file, or the first of a split model
  std::uint64_t bytes = 0;  ///< of all its files
};

/// All there are, by place and name. Places that cannot be read are passed over.
std::vector<KnownModel> known_models();

/// Those that a name means: the one whose name, or its last part, is this one; else all in whose
/// names it occurs. Upper and lower case are the same.
std::vector<KnownModel> matching_models(const std::vector<KnownModel>& models,
                                        std::string_view name);

/// The demo model installed with this program, or built beside it; "" where there is none.
std::string bundled_model();

}  // namespace cria::tools
