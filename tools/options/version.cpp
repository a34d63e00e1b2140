#include "engine/execute/machine.h"
#include "tools/options/command_line.h"
#include "tools/ranks/process_ranks.h"

namespace cria::tools {

std::string program_version() {
  const std::string commit = CRIA_COMMIT;
  return CRIA_VERSION + (commit.empty() ? "" : " (commit " + commit + ")");
}

std::string version_text() {
  const std::string commit = CRIA_COMMIT;
  return "cria " CRIA_VERSION " (" + (commit.empty() ? "" : "commit " + commit + "; ") +
         "runs on " + available_kernel_names() +
         (can_join_ranks() ? "; several machines by MPI" : "") + ")";
}

}  // namespace cria::tools
