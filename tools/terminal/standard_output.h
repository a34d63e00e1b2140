// stdout: the answer.
#pragma once

#include <string_view>

#include "model/error.h"

namespace cria::tools {

inline constexpr int kOutputClosedExit = 141;  ///< as shells report a program that SIGPIPE ended

/// stdout takes no more, of which there is nothing to say: whoever read it (`| head`) has read
/// enough. The program ends with kOutputClosedExit.
struct OutputClosed {};

/// stdout cannot be written for another reason (a full disk): no subcommand can go on.
struct OutputError : Error {
  using Error::Error;
};

/// Bytes to stdout; they stay in a buffer until it is large or flushed. To a terminal without DEL
/// and C1 controls; others are the caller's business, whose text may have styles. Throw
/// OutputClosed or OutputError, and Interrupted where stdout takes nothing and a signal says to
/// end.
void write_stdout(std::string_view bytes);
void flush_stdout();

/// Throws OutputError where stdout is a terminal: for bytes that are no text.
void refuse_terminal();

}  // namespace cria::tools
