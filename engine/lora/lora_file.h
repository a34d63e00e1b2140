// Which adapter, and how strongly: a public header of engine/.
#pragma once

#include <string>

namespace cria {

/// An adapter and how strongly it acts.
struct LoraFile {
  std::string path;
  float scale = 1;
};

}  // namespace cria
