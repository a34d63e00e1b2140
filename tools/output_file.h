// A file that is either complete or not there.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace cria::tools {

/// Written beside its target and renamed by finish(); removed if that never happens. What is not a regular
/// file
/// (/dev/stdout, a pipe) is written directly.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  ///< throws Error
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);  ///< throws Error
  void finish();                       ///< throws Error

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_, temporary_;  // temporary_ is empty when writing directly
  std::FILE* file_ = nullptr;
};

}  // namespace cria::tools
