// Stdout, and files that commands write.
#pragma once
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/error.h"
#include "model/file/binary_file.h"

namespace cria::tools {

inline constexpr int kOutputClosedExit = 141;  ///< as shells report a program that SIGPIPE ended

/// stdout was closed: its reader (`| head`) has read enough. The program ends silently with
/// kOutputClosedExit.
struct OutputClosed {};

/// stdout cannot be written for another reason (a full disk): the command ends.
struct OutputError : Error {
  using Error::Error;
};

/// Bytes to stdout; they stay in a buffer until it is large or flushed. To a terminal without DEL
/// and C1 controls; others are the caller's business, whose text may have styles. Throw
/// OutputClosed or OutputError, and Interrupted where stdout takes nothing and a signal says to
/// end.
void write_stdout(std::string_view bytes);
void flush_stdout();

/// Throws OutputError if stdout is a terminal; call it before writing binary data.
void refuse_terminal();

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
