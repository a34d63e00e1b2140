#include "engine/distribute/file_parts.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "engine/model.h"
#include "engine/model_parts.h"

namespace cria {
namespace {

// What one request reads: Linux cuts a longer one to its limit for reading ahead, 128 KiB by
// default.
constexpr std::uintptr_t kReadPiece = std::uintptr_t{128} << 10;

struct AddressRange {
  std::uintptr_t begin, end;
};

void advise_range(AddressRange range, int advice) {
  ::madvise(reinterpret_cast<void*>(range.begin), range.end - range.begin, advice);
}

// All pages that the tensor touches.
AddressRange pages_of(const TensorView& tensor) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  return {address / page * page, address + tensor.bytes};
}

}  // namespace

void read_nothing_ahead(const Model& model) {
  if (model.pinned()) return;
  for (const TensorView& tensor : model.file().tensors())
    advise_range(pages_of(tensor), MADV_RANDOM);
}

void read_own_rows(const Model& model, const Graph& graph, const GraphParts& parts) {
  if (model.pinned()) return;
  parts.for_each_weight(graph, [](const TensorView& rows) {
    const AddressRange own = pages_of(rows);
    for (std::uintptr_t begin = own.begin; begin < own.end; begin += kReadPiece)
      advise_range({begin, std::min(begin + kReadPiece, own.end)}, MADV_WILLNEED);
  });
}

}  // namespace cria
