// What somebody who typed a name wrongly may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cria::tools {

/// Letters to insert, remove, replace or swap with the next one to get from one word to the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name most like the word, if one is like it: at most a third of its letters differ, or it
/// begins with the word. Else "".
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);

/// "; did you mean NAME?", or "" where no name is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& names);

}  // namespace cria::tools
