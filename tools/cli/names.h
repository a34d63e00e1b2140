// Names that are not ours: what a mistyped one may have meant, and what flags of llama.cpp are
// here.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace cria::tools {

/// Letters to insert, remove, replace or swap with the next one to get from one word to the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name most like the word: at most a third of its letters differ, or it begins with the word.
/// "" if no name is like it.
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);

/// "; did you mean NAME?", or "" if no name is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& names);

/// The meaning of a llama.cpp flag.
struct ForeignName {
  std::string_view name;          ///< as typed there: "--ctx-size", "-ngl"
  std::string_view ours;          ///< the equivalent flag of cria, "--ctx", or ""
  std::string_view why;           ///< without one: why it does not apply; "" if cria always does so
  unsigned values = 0;            ///< the number of values that it takes, without one of ours
  std::string_view command = {};  ///< the only command of this row; "": all that no row names
  bool pipe_only = false;         ///< `why` holds in a pipe; on a terminal cria always does so
  bool harmless = false;          ///< the answer is the same without it: a note, not an error
};

/// Null for an unknown name. Underscores count as hyphens.
const ForeignName* find_foreign_name(std::string_view name, std::string_view command);

/// Returns what to type instead of a command of another program, such as "ls"; "" for other names.
std::string_view foreign_command_hint(std::string_view name);

}  // namespace cria::tools
