// A model that a test writes.
#pragma once

#include <string>

#include "engine/model.h"
#include "tests/model/temporary_directory.h"

namespace cria::test {

/// Has write(path) make a file, loads it and removes it. Throws Error where the file is refused.
template <class Write>
std::shared_ptr<const Model> load_written(Write&& write) {
  // In memory where there is a place for it: a disk makes sure that every file is there, which
  // takes long.
  const std::filesystem::path memory = "/dev/shm";
  const TemporaryDirectory directory(
      std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path());
  const std::string path = directory.file("model.gguf");
  write(path);
  return Model::load(path);
}

}  // namespace cria::test
