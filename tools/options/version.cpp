#include "engine/execute/kernels_in_use.h"
#include "tools/options/command_line.h"

namespace cria::tools {

std::string program_version() {
  const std::string commit = CRIA_COMMIT;
  return CRIA_VERSION + (commit.empty() ? "" : " (commit " + commit + ")");
}

std::string version_text() {
  const std::string commit = CRIA_COMMIT;
  return "cria " CRIA_VERSION " (" + (commit.empty() ? "" : "commit " + commit + "; ") + "runs on " +
         available_kernel_names() + ")";
}

}  // namespace cria::tools
