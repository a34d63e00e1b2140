// A copy of a model with other metadata: keys set, replaced and removed, tensors as they are.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/gguf/gguf.h"
#include "model/gguf/tensor_copy.h"
#include "model/gguf/writer.h"

namespace cria {

struct GgufEdit {
  std::vector<std::pair<std::string, GgufData>>
      set;  ///< a key that is there keeps its place, new ones follow
  std::vector<std::string> remove;
};

/// Writes file with the edit to path, as one file also where it comes in several (without the keys
/// of a split then). The alignment is kept, and every tensor's bytes. False if on_bytes stopped it:
/// path is as it was. Throws Error, before anything is written, for a key that is empty, too long,
/// not UTF-8 or named twice; for one to remove that is not there; for general.alignment and
/// split.*, which say how the file is laid out; for a string or array that readers refuse; for more
/// keys than readers take; if path is one of the file's own.
bool write_edited(const GgufFile& file, const std::string& path, const GgufEdit& edit,
                  const OnBytes& on_bytes = {});

}  // namespace cria
