// A model that a test writes.
#pragma once

#include <string>

#include "engine/model.h"
#include "tests/model/temporary_directory.h"

namespace cria::test {

/// Calls write(path), loads that file and removes it. Throws Error if the file is rejected.
template <class Write>
std::shared_ptr<const Model> load_written(Write&& write) {
  // Prefer memory to a disk, where writing would wait until the file is safe.
  const std::filesystem::path memory = "/dev/shm";
  const TemporaryDirectory directory(
      std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path());
  const std::string path = directory.file("model.gguf");
  write(path);
  return Model::load(path);
}

}  // namespace cria::test
