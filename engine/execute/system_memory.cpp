#include "engine/execute/system_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "model/error.h"

namespace cria {

SystemMemory::SystemMemory(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error("not enough memory: expected " + std::to_string(bytes >> 20) + " MiB more");
  madvise(memory, bytes, MADV_HUGEPAGE);  // advice: a refusal costs speed only
  data_ = static_cast<std::byte*>(memory);
}

SystemMemory::~SystemMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

SystemMemory::SystemMemory(SystemMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SystemMemory& SystemMemory::operator=(SystemMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::size_t available_memory(const CgroupTree& tree) {
  std::size_t machine = kUnlimitedMemory;
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word; in.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    std::size_t kib = 0;
    if (word == "MemAvailable:" && in >> kib) machine = kib * 1024;
  }
  return std::min(machine, cgroup_memory(tree));
}

}  // namespace cria
