// A limit to what a test may take in memory.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace cria::test {

/// During its lifetime, this process cannot allocate more than `more` further bytes (Linux: private
/// writable memory). No effect with sanitizers, which need much memory themselves.
class MemoryLimit {
 public:
  explicit MemoryLimit([[maybe_unused]] rlim_t more) {
    getrlimit(RLIMIT_DATA, &before_);
#ifndef CRIA_SANITIZED
    std::ifstream sizes("/proc/self/statm");
    rlim_t pages = 0;
    for (int field = 0; field < 6; ++field) sizes >> pages;
    rlimit limited = before_;
    limited.rlim_cur =
        std::min(before_.rlim_cur, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more);
    setrlimit(RLIMIT_DATA, &limited);
#endif
  }
  ~MemoryLimit() { setrlimit(RLIMIT_DATA, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_ = {};
};

}  // namespace cria::test
