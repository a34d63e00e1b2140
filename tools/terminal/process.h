// What the process needs around its subcommand: standard descriptors that are open, and one line of
// what went wrong where the system would end it without a word.
#pragma once

#include <cstddef>

namespace cria::tools {

/// To be called first. Opens what of stdin, stdout and stderr is closed, so that no file of the
/// program takes its place (reading and writing there still fails). SIGPIPE and SIGXFSZ become
/// errors of the write. SIGBUS in a mapped file that shrank, and exceptions that nobody can catch
/// (out of memory inside of another library), end the program with one line that says so and exit
/// code 1.
void prepare_process();

/// Lets the process have so many files open, as far as it may: the usual limit is 1024.
void allow_descriptors(std::size_t wanted);

/// What exit_now() writes to the terminal, to leave a mode of it that a part of the program turned
/// on; "": nothing. Not copied.
void set_last_words(const char* sequence);

/// Ends the process at once with the terminal as it was found; may be called from signal handlers.
[[noreturn]] void exit_now(int code);

}  // namespace cria::tools
