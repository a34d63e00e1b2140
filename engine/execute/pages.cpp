#include "engine/execute/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "model/error.h"

namespace cria {

Pages::Pages(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error("not enough memory: expected " + std::to_string(bytes >> 20) + " MiB more");
  madvise(memory, bytes, MADV_HUGEPAGE);  // advice: a refusal costs speed only
  data_ = static_cast<std::byte*>(memory);
}

Pages::~Pages() {
  if (data_ != nullptr) munmap(data_, size_);
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

// The number after `key` in a file of lines "key number …", or `missing`.
std::size_t field(const char* path, const std::string& key, std::size_t missing) {
  std::ifstream in(path);
  std::string word;
  std::size_t number = 0;
  while (in >> word) {
    if (word == key && in >> number) return number;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return missing;
}

// The number a file begins with, or `missing` ("max" is no number).
std::size_t number_in(const char* path, std::size_t missing) {
  std::ifstream in(path);
  std::size_t number = 0;
  return in >> number ? number : missing;
}

// What a cgroup of version 2 or 1 leaves. Its usage counts page cache, which gives way.
std::size_t cgroup_available(const char* limit_file, const char* usage_file, const char* stat_file) {
  const std::size_t limit = number_in(limit_file, kUnlimited);
  if (limit == kUnlimited) return kUnlimited;
  const std::size_t cache = field(stat_file, "active_file", 0) + field(stat_file, "inactive_file", 0);
  const std::size_t used = number_in(usage_file, 0);
  return limit - std::min(limit, used - std::min(used, cache));
}

}  // namespace

std::size_t available_memory() {
  const std::size_t kib = field("/proc/meminfo", "MemAvailable:", kUnlimited);
  const std::size_t machine = kib == kUnlimited ? kUnlimited : kib * 1024;
  const std::size_t v2 = cgroup_available("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                                          "/sys/fs/cgroup/memory.stat");
  const std::size_t v1 =
      cgroup_available("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                       "/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.stat");
  return std::min({machine, v2, v1});
}

}  // namespace cria
