#include "engine/distribute/file_parts.h"

#include <sys/mman.h>
#include <unistd.h>

#include "engine/model.h"
#include "engine/model_parts.h"

namespace cria {
namespace {

// For all pages that the tensor touches.
void advise_tensor(const TensorView& tensor, int advice) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  const std::uintptr_t begin = address / page * page;
  ::madvise(reinterpret_cast<void*>(begin), address + tensor.bytes - begin, advice);
}

}  // namespace

void read_nothing_ahead(const Model& model) {
  if (model.pinned()) return;
  for (const TensorView& tensor : model.file().tensors()) advise_tensor(tensor, MADV_RANDOM);
}

void read_ahead(const Model& model, const Graph& graph, const GraphParts& parts) {
  if (model.pinned()) return;
  parts.for_each_weight(graph, [](const TensorView& rows) {
    advise_tensor(rows, MADV_NORMAL);
    advise_tensor(rows, MADV_WILLNEED);
  });
}

}  // namespace cria
