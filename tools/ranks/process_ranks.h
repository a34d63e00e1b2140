// The program as one of several processes started by mpirun.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cria {
class Leader;
}

namespace cria::tools {

/// True if the module that connects several processes is installed.
bool can_join_ranks();

/// The leader of the other ranks, for LoadOptions::cluster; null: this process is alone.
const std::shared_ptr<Leader>& rank_leader();

/// Apply --shares and --rank-timeout to engines opened from now on. Throw Error for bad values and
/// without other ranks. threads: for measuring the read rates for "auto"; 0: each rank's default.
void set_shares(const std::string& shares, std::uint32_t threads);
void set_rank_timeout(double seconds);

/// Memory of each rank's engines, one line each; empty if this process is alone.
std::vector<std::string> rank_memory_lines();

/// Throws Error if there are other ranks: they hold a part of the KV cache.
void reject_ranks(const std::string& file);

/// Runs the command. If mpirun started several processes, rank 0 runs it and the others follow
/// until it ends. version: of this program, which must be the same on every rank. Returns the exit
/// code. Throws Error if they cannot be joined.
int run_among_ranks(const std::string& version, const std::function<int()>& command);

}  // namespace cria::tools
