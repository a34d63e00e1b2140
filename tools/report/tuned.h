// What `cria bench --tune --remember` has found best for a model on this machine: a file of
// options, which subcommands get where nobody has said otherwise.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/options/settings.h"

namespace cria::tools {

/// Values of options by their long names: {"threads", "4"}, {"no-mmap", "true"}. Empty: the
/// defaults are best.
using TunedOptions = std::map<std::string, std::string>;

/// As they would be typed: "--threads 4 --no-mmap".
std::string typed_options(const TunedOptions& options);

/// $XDG_STATE_HOME/cria/tuned.json, else ~/.local/state/cria/tuned.json; "" where there is no home.
std::string tuned_path();

/// What is remembered for the file of a model, by its name and size, on this machine. Nothing is
/// remembered where the file of it cannot be read; says on stderr if that is no file of ours.
TunedOptions remembered_options(const std::string& model);

/// Remembers it in place of what was there. Throws Error where that cannot be.
void remember_options(const std::string& model, const TunedOptions& options);

/// Adds what is remembered for the model that the subcommand will run to its settings, where
/// neither they nor what was typed says anything, and --no-tuned is not there; nothing where mpirun
/// has started several processes. words: what was typed. Returns what was added.
TunedOptions add_tuned_settings(CommandSettings& settings, const CLI::App& command,
                                const std::set<const CLI::Option*>& given,
                                const std::vector<std::string>& words);

}  // namespace cria::tools
