#include "tools/ranks/process_ranks.h"

#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "engine/distribute/leader.h"
#include "model/error.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {
namespace fs = std::filesystem;

std::shared_ptr<Leader> leader_of_ranks;

/// Number of processes that mpirun (Open MPI or, by PMI, MPICH) started; 1: started otherwise.
long started_processes() {
  long most = 1;
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* const text = std::getenv(name))
      most = std::max(most, std::strtol(text, nullptr, 10));
  return most;
}

/// Path of the module: the program's directory in a build tree, below lib if installed.
fs::path module_path() {
  std::error_code error;
  const fs::path directory = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path built = directory / kMpiModule, installed = directory / CRIA_MODULES / kMpiModule;
  return fs::exists(built, error) ? built : installed;
}

// RTLD_GLOBAL: MPI's plug-ins need its symbols. The module is never unloaded, since its threads may
// still run.
std::unique_ptr<Ranks> join_ranks(long started) {
  const std::string count = std::to_string(started) + " processes were started as ranks, ";
  const fs::path path = module_path();
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr) {
    std::error_code error;
    throw Error(count +
                (fs::exists(path, error)
                     ? "but " + std::string(dlerror())
                     : "but " + path.lexically_normal().string() +
                           " does not exist: this cria was built without MPI, or the package "
                           "cria-mpi is not installed"));
  }
  const auto join = reinterpret_cast<JoinMpi>(dlsym(module, kMpiEntry));
  char reason[256] = {};
  std::unique_ptr<Ranks> ranks(join == nullptr ? nullptr : join(reason, sizeof reason));
  if (ranks == nullptr) throw Error(count + "but " + reason);
  if (ranks->size() == 1)  // each process would answer
    throw Error(count +
                "but this one finds no other: mpirun belongs to another MPI than that of this cria "
                "(to run alone, "
                "unset OMPI_COMM_WORLD_SIZE and PMI_SIZE)");
  return ranks;
}

// Signals are for rank 0, which ends the others; mpirun kills those that do not end.
int follow_rank_0(Ranks& ranks, const std::string& version) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
  try {
    follow(ranks, version);
    return 0;
  } catch (const std::exception& error) {
    print_error("rank " + std::to_string(ranks.rank()) + " on " + ranks.host() + ": " +
                error.what());
    exit_now(1);  // mpirun ends the others, which wait for this one
  }
}

Leader& leader_for(const char* option) {
  if (leader_of_ranks == nullptr)
    throw Error(std::string(option) + " is for several ranks: mpirun -n 2 cria ...");
  return *leader_of_ranks;
}

}  // namespace

bool can_join_ranks() {
  std::error_code error;
  return fs::exists(module_path(), error);
}

const std::shared_ptr<Leader>& rank_leader() { return leader_of_ranks; }

void set_shares(const std::string& shares, std::uint32_t threads) {
  Leader& leader = leader_for("--shares");
  if (shares != "auto") return leader.set_shares(parse_shares(shares, leader.ranks().size()));
  const std::vector<double> rates = leader.measure_rates(threads);
  const Shares measured = shares_of(rates);
  std::string text;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    char line[64] = {};
    std::snprintf(line, sizeof line, "%s%u (%.1f GB/s)", i == 0 ? "" : ", ", measured[i], rates[i]);
    text += line;
  }
  leader.set_shares(measured);
  print_note("shares by the read rate of each rank: " + text);
}

std::vector<std::string> rank_memory_lines() {
  std::vector<std::string> lines;
  for (std::size_t i = 0; leader_of_ranks && i < leader_of_ranks->opened().size(); ++i) {
    const RankReport& report = leader_of_ranks->opened()[i];
    lines.push_back("rank " + std::to_string(i) + " on " + report.host + ": reads " +
                    human_bytes(report.memory.weights) + " of the file, keys and values " +
                    human_bytes(report.memory.kv) + ", work " + human_bytes(report.memory.work));
  }
  return lines;
}

void reject_ranks(const std::string& file) {
  if (leader_of_ranks)
    throw Error(file, "a session's file cannot be written or read where several ranks compute");
}

void set_rank_timeout(double seconds) { leader_for("--rank-timeout").set_timeout(seconds); }

int run_among_ranks(const std::string& version, const std::function<int()>& command) {
  const long started = started_processes();
  if (started <= 1) return command();
  const std::unique_ptr<Ranks> ranks = join_ranks(started);
  if (ranks->rank() != 0) return follow_rank_0(*ranks, version);
  leader_of_ranks = std::make_shared<Leader>(*ranks, version);
  /// Ends the other ranks, even if a model is still in use.
  const struct End {
    ~End() {
      leader_of_ranks->end();
      leader_of_ranks.reset();
    }
  } end;
  return command();
}

}  // namespace cria::tools
