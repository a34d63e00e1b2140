// Which file -m means.
#pragma once

#include <string>

namespace cria::tools {

/// The file of a model: named itself, or by the name (or a part that only one has) of a model that
/// is on this machine (model_store.h). "": $CRIA_MODEL, else the demo model installed with (or
/// built beside) this program. Throws Error, which says how to get a model that is elsewhere.
std::string find_model(const std::string& named);

}  // namespace cria::tools
