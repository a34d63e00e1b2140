// Which adapter, and how strongly: a public header of engine/.
#pragma once

#include <string>

namespace cria {

/// An adapter and how strongly it acts.
struct LoraFile {
  std::string path;  ///< of a GGUF file
  float scale = 1;   ///< 0: not at all
};

}  // namespace cria
