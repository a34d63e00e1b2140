// A file in memory that has a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/target.h"

namespace cria::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(fd_ >= 0, "no file in memory");
    require(::write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "file not written");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

/// A private directory, in memory if possible. clear() empties it; the destructor removes it.
/// Directories of crashed processes are removed by the next one.
class MemoryDirectory {
 public:
  MemoryDirectory() {
    static int count = 0;
    if (count == 0) remove_abandoned();
    path_ = place() / (kPrefix + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directory(path_);
  }
  MemoryDirectory(const MemoryDirectory&) = delete;
  MemoryDirectory& operator=(const MemoryDirectory&) = delete;
  ~MemoryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  /// Removes the directories of processes that have ended.
  static void remove_abandoned() {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(place(), ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(kPrefix)) continue;
      const pid_t owner = std::atoi(name.c_str() + kPrefix.size());
      if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH)
        std::filesystem::remove_all(entry.path(), ignored);
    }
  }
  [[nodiscard]] std::string path(std::string_view name = {}) const {
    return name.empty() ? path_.string() : (path_ / name).string();
  }
  std::string write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  void clear() const {
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      std::filesystem::remove_all(entry);
  }
  [[nodiscard]] std::string read(std::string_view name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  static inline const std::string kPrefix = "cria-fuzz-";
  static std::filesystem::path place() {
    const std::filesystem::path shm = "/dev/shm";
    return std::filesystem::is_directory(shm) ? shm : std::filesystem::temp_directory_path();
  }

  std::filesystem::path path_;
};

}  // namespace cria::fuzz
