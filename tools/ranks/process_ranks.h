// The program as one of several that mpirun has started.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cria::tools {

/// Whether the module that connects several processes is there.
bool can_join_ranks();

/// What --shares and --rank-timeout say, for engines that are opened from now on. Throws Error for
/// what cannot be, and where there are no other ranks to share with. threads: with which the read
/// rates for "auto" are measured; 0: each rank's default.
void set_shares(const std::string& shares, std::uint32_t threads);
void set_rank_timeout(double seconds);

/// What each rank has for the engines that were opened, one line each; none where this process is
/// alone.
std::vector<std::string> rank_memory_lines();

/// Throws Error where there are other ranks: their keys and values are not in this process.
void refuse_ranks(const std::string& file);

/// Runs the command; where mpirun has started several processes, on rank 0 alone, which the others
/// follow until it ends. Returns the exit code. Throws Error where they cannot be joined.
int run_among_ranks(const std::function<int()>& command);

}  // namespace cria::tools
