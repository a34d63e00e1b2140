// Options by the names that llama.cpp gives them.
#pragma once

#include <string_view>

namespace cria::tools {

/// What an option of llama.cpp is here.
struct ForeignName {
  std::string_view name;  ///< as typed there: "--ctx-size", "-ngl"
  std::string_view ours;  ///< the option that means the same, "--ctx"; "" where there is none
  std::string_view
      why;  ///< where there is none: why it does not apply; "" where cria always does so
  unsigned values = 0;            ///< arguments that it takes, where there is none of ours
  std::string_view command = {};  ///< the only command that this is for; "": all that are not named
  bool pipe_only = false;         ///< `why` is true of a pipe; on a terminal cria always does so
};

/// For a command of ours. Null where llama.cpp has no such option, or none that is known here.
/// Underscores are hyphens.
const ForeignName* find_foreign_name(std::string_view name, std::string_view command);

}  // namespace cria::tools
