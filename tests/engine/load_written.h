// A model that a test writes.
#pragma once

#include <string>

#include "engine/model.h"
#include "tests/model/temporary_directory.h"

namespace cria::test {

/// Has write(path) make a file, loads it and removes it. Throws Error where the file is refused.
template <class Write>
std::shared_ptr<const Model> load_written(Write&& write) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("model.gguf");
  write(path);
  return Model::load(path);
}

}  // namespace cria::test
