// Ctrl-C: the first asks whatever runs to stop, a second one before it did ends the program.
#pragma once

#include <atomic>

namespace cria::tools {

inline constexpr int kInterruptedExit = 130;  ///< as shells report a program that SIGINT ended

/// Thrown to leave a subcommand after Ctrl-C; the program then exits with kInterruptedExit.
struct Interrupted {};

/// From now on SIGINT sets the flag that is returned instead of ending the program. Whoever acts on the flag
/// clears it.
std::atomic<bool>& catch_interrupts();

/// Waits until the descriptor can be read without blocking; false if the flag is or gets set meanwhile. (A
/// read that fails with EINTR would not do: the system may give the signal to another thread.)
bool wait_readable(int descriptor);

}  // namespace cria::tools
