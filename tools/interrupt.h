// Ctrl-C: the first asks whatever runs to stop, a second one before it did ends the program.
#pragma once

#include <atomic>

namespace cria::tools {

inline constexpr int kInterruptedExit = 130;  ///< as shells report a program that SIGINT ended

/// Thrown to leave a subcommand after Ctrl-C; the program then exits with kInterruptedExit.
struct Interrupted {};

/// From now on SIGINT sets the flag that is returned instead of ending the program; blocking reads return
/// EINTR. Whoever acts on the flag clears it.
std::atomic<bool>& catch_interrupts();

}  // namespace cria::tools
