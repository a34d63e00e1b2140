// What is said when work in windows is interrupted, and when it goes on.
#pragma once

#include <cstddef>
#include <string>

namespace cria::tools {

/// state: the file of --state; "": there is none, and what was done is lost.
std::string stopped_text(const std::string& state, std::size_t done, std::size_t windows);
std::string resumed_text(const std::string& state, std::size_t done, std::size_t windows);

}  // namespace cria::tools
