// Being asked to end: Ctrl-C, SIGTERM, a terminal that is gone. The first signal asks whatever runs
// to stop, a second one before it did ends the program.
#pragma once

#include <atomic>
#include <functional>

namespace cria::tools {

/// Thrown to leave a subcommand after such a signal; the program then exits with
/// interrupted_exit().
struct Interrupted {};

/// From now on SIGINT, SIGTERM and SIGHUP set the flag that is returned instead of ending the
/// program. Whoever acts on a Ctrl-C and goes on clears it.
std::atomic<bool>& catch_interrupts();

/// As shells report a program that the signal ended: 128 + its number (130: Ctrl-C).
int interrupted_exit();
/// Whether it was another signal than Ctrl-C: nothing goes on after it, the flag stays set.
bool terminated();

/// Wait until the descriptor can be read or written without blocking; false if it cannot and the
/// flag is or gets set meanwhile, for reading also if it could. (A read or write that fails with
/// EINTR would not do: the system may give the signal to another thread.) on_continue: called where
/// the process was stopped meanwhile and goes on, as the terminal may have been another program's.
bool wait_readable(int descriptor, const std::function<void()>& on_continue = {});
bool wait_writable(int descriptor);

/// As Ctrl-Z on a terminal: stops this process and those that were started with it; returns when it
/// goes on.
void stop_process();

}  // namespace cria::tools
