// The program as one of several that mpirun has started.
#pragma once

#include <functional>
#include <string>

namespace cria::tools {

/// What --shares and --rank-timeout say, for engines that are opened from now on. Throws Error for what cannot be, and where
/// there are no other ranks to share with.
void set_shares(const std::string& shares);
void set_rank_timeout(double seconds);

/// Runs the command; where mpirun has started several processes, on rank 0 alone, which the others follow until it ends. Returns
/// the exit code. Throws Error where they cannot be joined.
int run_among_ranks(const std::function<int()>& command);

}  // namespace cria::tools
