// Importance matrices of both formats.
#include "engine/quantize/importance.h"

#include <cmath>

#include "tests/fuzz/gguf_mutator.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seed_models.h"

namespace cria::fuzz {
namespace {

void run_importance(std::string_view input) {
  const MemoryFile file(input);
  ImportanceMatrix matrix = ImportanceMatrix::read(file.path());
  for (const auto& [name, entry] : matrix.entries) {
    require(!entry.counts.empty() && entry.sums.size() % entry.counts.size() == 0,
            "sums and counts that do not fit");
    const std::size_t experts = entry.counts.size();
    for (const float weight : matrix.weights(name, entry.sums.size() / experts, experts))
      require(std::isfinite(weight) && weight >= 0, "invalid weight");
  }
  static const MemoryDirectory directory;
  for (const char* name : {"matrix.gguf", "matrix.dat"}) {
    try {
      matrix.write(directory.path(name));
    } catch (const Error&) {  // the format cannot hold the name
      continue;
    }
    if (std::string_view(name).ends_with("gguf"))
      require(ImportanceMatrix::read(directory.path(name)).entries.size() == matrix.entries.size(),
              "another number of entries");
  }
  const ImportanceMatrix same = matrix;
  matrix.add(same);
}

template <class T>
std::string old_number(T number) {
  return bytes_of(static_cast<std::int32_t>(number));
}

std::vector<std::string> importance_seeds() {
  std::string old = old_number(2);
  for (const std::string name : {"blk.0.attn_q.weight", "output.weight"}) {
    old += old_number(name.size()) + name + old_number(3) + old_number(4);
    for (const float value : {0.5F, 0.0F, 1.0F, 3e8F}) old += bytes_of(value);
  }
  return {seed_importance().bytes(), old, old + old_number(3) + old_number(5) + "a.txt"};
}

}  // namespace

const Target kImportance{"importance", run_importance, importance_seeds, mutate_gguf, gguf_words};

}  // namespace cria::fuzz
