#include "tools/report/resumption.h"

#include "model/plural.h"

namespace cria::tools {

std::string stopped_text(const std::string& state, std::size_t done, std::size_t windows) {
  const std::string far =
      "stopped after " + std::to_string(done) + " of " + counted(windows, "window") + "; ";
  return far + (state.empty() ? "with --state FILE it could go on from there"
                              : "the same command goes on from there, by " + state);
}

std::string resumed_text(const std::string& state, std::size_t done, std::size_t windows) {
  return "going on after " + std::to_string(done) + " of " + counted(windows, "window") + ", by " +
         state;
}

}  // namespace cria::tools
