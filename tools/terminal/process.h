// The process: signals, interrupts, and what it is given at its start.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>

namespace cria::tools {

/// Thrown to leave a subcommand after such a signal; the program then exits with
/// interrupted_exit().
struct Interrupted {};

/// From now on SIGINT, SIGTERM and SIGHUP set the flag that is returned instead of ending the
/// program. Code that handles a Ctrl-C and continues must clear it.
std::atomic<bool>& catch_interrupts();

/// The exit code of shells for the signal: 128 + its number (130: Ctrl-C).
int interrupted_exit();
/// True after a signal other than Ctrl-C: the program must end, and the flag stays set.
bool terminated();

/// Wait until the descriptor can be read or written without blocking; false if it cannot and the
/// flag is or gets set meanwhile, for reading also if it could. (EINTR is not enough: another
/// thread may get the signal.) on_continue: called after the process was stopped and continued,
/// since another program may have used the terminal.
bool wait_readable(int descriptor, const std::function<void()>& on_continue = {});
bool wait_writable(int descriptor);

/// Like Ctrl-Z on a terminal: stops this process and its group; returns when it continues.
void stop_process();

/// To be called first. Opens what of stdin, stdout and stderr is closed, so that no file of the
/// program takes its place (reading and writing there still fails). SIGPIPE and SIGXFSZ become
/// errors of the write. SIGBUS in a mapped file that shrank, and uncaught exceptions (out of memory
/// in a library), end the program with one line and exit code 1.
void prepare_process();

/// Raises the limit of open files, as far as allowed; the usual limit is 1024.
void allow_descriptors(std::size_t wanted);

/// The sequence that exit_now() writes to reset the terminal's mode, or "". Not copied.
void set_last_words(const char* sequence);

/// Ends the process at once with the terminal as it was found; may be called from signal handlers.
[[noreturn]] void exit_now(int code);

}  // namespace cria::tools
