// A directory for the files of one test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace cria::test {

/// A directory of its own, removed at the end.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(
      const std::filesystem::path& place = std::filesystem::temp_directory_path()) {
    static int count = 0;
    path_ =
        place / ("cria-model-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directory(path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }
  std::string write(std::string_view name, std::string_view content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace cria::test
