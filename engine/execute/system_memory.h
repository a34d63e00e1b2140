// Memory straight from the system: zeroed, and resident only where it was touched.
#pragma once

#include <cstddef>

#include "engine/execute/cgroup.h"

namespace cria {

/// Owns the memory; may be moved, not copied.
class SystemMemory {
 public:
  SystemMemory() = default;
  /// Throws Error if the system refuses.
  explicit SystemMemory(std::size_t bytes);
  ~SystemMemory();
  SystemMemory(SystemMemory&& other) noexcept;
  SystemMemory& operator=(SystemMemory&& other) noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Bytes that new memory may take before the system swaps or kills: MemAvailable, or what the
/// limits of the process's cgroups leave if that is less. Page cache counts as available.
std::size_t available_memory(const CgroupTree& tree = {});

}  // namespace cria
