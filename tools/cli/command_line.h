// The command line: words to values of flags, help texts that fit the terminal, and names that are
// not ours.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/flag.h"

namespace cria::tools {

/// Gives the words to the flags of the command that they name, with names of llama.cpp replaced by
/// ours. Returns the command; null for the program's own --help and --version. Throws UsageError
/// for an unknown command or flag, a missing value and an argument too many.
Command* read_arguments(Program& program, const Words& typed);

/// "unknown command: rnu; did you mean run? (cria help lists the commands)". prompt: the name as a
/// shell reads it, if it may be a prompt for `cria run`.
std::string unknown_command(const Program& program, const std::string& name,
                            const std::string& prompt = {});

/// Checks the given values and which flags are there together, and sets the flags' targets. Throws
/// UsageError.
void set_values(Command& command);

/// "cria 0.1.0 (commit 0123456789; runs on avx2, scalar; several machines by MPI)"
std::string version_text();
/// Version and commit: what two machines must agree in.
std::string program_version();

/// The columns of the stream's terminal, at most 110; 80 without a terminal.
std::size_t help_columns(std::FILE* stream);

/// "  run   Answer one prompt …", an entry for each command, in lines of at most `columns`.
std::string command_list(const Program& program, std::size_t columns);

/// Notes and examples: paragraphs are broken at words, and so are commands (lines that begin with
/// blanks), so that a shell still reads them as one.
std::string footer_text(const std::string& footer, std::size_t columns);

/// The output of --help.
std::string help_text(const Program& program);
/// True if the flag is shown without `all`: the common ones of a command with many flags, else
/// those without a heading of their own.
bool is_in_short_help(const Command& command, const Flag& flag);
/// Help of a command.
std::string help_text(const Command& command, bool all);

/// Letters to insert, remove, replace or swap with the next one to get from one word to the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name most like the word: at most a third of its letters differ, or it begins with the word.
/// "" if no name is like it.
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);

/// "; did you mean NAME?", or "" if no name is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& names);

/// The meaning of another program's flag. Lists of names are separated by commas.
struct ForeignName {
  std::string_view names;          ///< as typed there: "-ngl,--gpu-layers"
  std::string_view ours;           ///< the equivalent flag of cria, "--ctx", or ""
  std::string_view why;            ///< why it does not apply; "" if cria does so anyway
  unsigned values = 0;             ///< the number of values that it takes, without one of ours
  std::string_view commands = {};  ///< the commands of this row; "": all that no row names
  bool pipe_only = false;          ///< `why` holds in a pipe; on a terminal cria always does so
  bool harmless = false;           ///< `why` is a note, not an error
  std::string_view neutral = {};   ///< values that ask for what cria does
};

/// Null for an unknown name. Underscores count as hyphens.
const ForeignName* find_foreign_name(std::string_view name, std::string_view command);
/// The long names of other programs for flags of this command.
Words foreign_names_of(const Command& command);

/// Returns a command's name as cria would spell it: small letters, hyphens, without llama- and .py.
std::string plain_command_name(std::string_view name);
/// Returns what to type instead of a command of another program, such as "ls"; "" for other names.
std::string_view foreign_command_hint(std::string_view name);

}  // namespace cria::tools
