// Where a subcommand's -o goes.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/file/binary_file.h"

namespace cria::tools {

/// A file is replaced whole or not at all (cria::OutputFile); what is not a regular file
/// (/dev/stdout, a pipe) is written directly, "-" to stdout.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  ///< throws Error
  void write(std::string_view bytes);            ///< throws Error
  void finish();                                 ///< throws Error

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  std::optional<cria::OutputFile> file_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream_{
      nullptr, &std::fclose};  // when writing directly, but to stdout
};

}  // namespace cria::tools
