#include "tools/options/session_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "model/error.h"
#include "tools/ranks/process_ranks.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace fs = std::filesystem;

Flag session_flag(std::string& file, const std::string& help) {
  return {"--session", "FILE", help + "; the file works with the same model only",
          into::text(file)};
}

bool has_session_file(const std::string& file) {
  if (file.empty()) return false;
  reject_ranks(file);
  std::error_code error;
  if (fs::exists(file, error)) return true;
  const fs::path directory = fs::path(file).parent_path();
  if (!directory.empty() && !fs::is_directory(directory, error))
    throw Error(file, "cannot be written: no such directory");
  return false;
}

SessionFile::SessionFile(std::string path) : path_(std::move(path)), before_(state()) {}

SessionFile::State SessionFile::state() const {
  struct stat file = {};
  if (path_.empty() || stat(path_.c_str(), &file) != 0) return {};
  return {file.st_ino, static_cast<std::uint64_t>(file.st_size),
          static_cast<std::uint64_t>(file.st_mtim.tv_sec),
          static_cast<std::uint64_t>(file.st_mtim.tv_nsec)};
}

std::string SessionFile::target() const {
  if (state() == before_) return path_;
  std::error_code error;
  std::string other;
  for (int i = 2; other.empty() || fs::exists(other, error); ++i)
    other = path_ + "." + std::to_string(i);
  print_warning(path_ + ": changed by another program since it was read; saving to " + other +
                " instead");
  return other;
}

namespace {

/// A lock of the directory of a file. Gives up after half a minute: the directory may not know
/// locks, or a stopped program may hold its.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& file) {
    constexpr int kTries = 600, kNotedAt = 20;
    constexpr std::chrono::milliseconds kPause{50};
    std::error_code error;
    const fs::path directory = fs::weakly_canonical(fs::absolute(file, error), error).parent_path();
    descriptor_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < kTries && descriptor_ >= 0; ++i) {
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
      if (i == kNotedAt) print_note("waiting for another program that saves next to " + file);
      std::this_thread::sleep_for(kPause);
    }
  }
  ~DirectoryLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace

void SessionFile::save(const std::function<void(const std::string&)>& write) const {
  if (path_.empty()) return;
  const DirectoryLock lock(path_);
  write(target());
}

}  // namespace cria::tools
