// Models on this machine: in $CRIA_MODELS, in the stores of other programs, and the bundled one.
// Finds the file that -m means. Nothing there is changed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cria::tools {

struct KnownModel {
  std::string name;         ///< for -m: "TheBloke/Mistral-7B/mistral.Q4_K_M", "llama3:8b"
  std::string place;        ///< "CRIA_MODELS", "Hugging Face", "ollama", …
  std::string path;         ///< the file, or the first of a split model
  std::uint64_t bytes = 0;  ///< sum of all its files
};

/// All there are, by place and name. Places that cannot be read are passed over.
std::vector<KnownModel> known_models();

/// The models that a name matches: one whose name or last part equals it, else all that contain it.
/// "org/name:Q8_0" matches the files of that repository with Q8_0 in their names. Case does not
/// matter.
std::vector<KnownModel> matching_models(const std::vector<KnownModel>& models,
                                        std::string_view name);

/// The models at a place: the GGUF files of a directory, a file, the model that a name means (as
/// for -m), or all models ("all"). A name is a file's without ".gguf" and the number of a split
/// file, or one of known_models(). Throws Error if the place does not exist.
std::vector<KnownModel> models_at(const std::string& place);

/// True for the bare name of a family of models, such as "llama3.2" or "deepseek-r1".
bool resembles_model(const std::string& word);

/// The demo model installed or built with this program, or "".
std::string bundled_model();

/// The file that -m means: named itself, or by the name of a known model (or a part of one that no
/// other has). "": $CRIA_MODEL, else the demo model. Throws Error that says how to get a model that
/// is elsewhere.
std::string find_model(const std::string& named);

}  // namespace cria::tools
