#include "tools/options/ranks.h"

#include "tools/options/command.h"
#include "tools/ranks/process_ranks.h"

namespace cria::tools {

void RankOptions::add_to(CLI::App& command) {
  command
      .add_option("--shares", shares,
                  "with several ranks (mpirun): the share of the work of each, or auto: by the "
                  "read rate of "
                  "its memory, measured at the start (default: equal shares)")
      ->type_name("N,N,...|auto");
  command
      .add_option("--rank-timeout", timeout,
                  "with several ranks: all end when one has not answered for this many seconds "
                  "(default: 7)")
      ->type_name("SECONDS")
      ->check(range(0.1, 86400.0));
}

void RankOptions::apply(std::uint32_t threads) const {
  if (!shares.empty()) set_shares(shares, threads);
  if (timeout != 0) set_rank_timeout(timeout);
}

}  // namespace cria::tools
