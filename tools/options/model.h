// The options of subcommands that run a model, and the model and the session that they ask for.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "engine/model_parts.h"
#include "engine/session.h"
#include "tools/options/overrides.h"
#include "tools/options/ranks.h"

namespace cria::tools {

/// Options of every subcommand that runs a model.
struct ModelOptions {
  std::string model;
  SessionOptions session;
  std::string kv_type = "f16";
  std::string pre;
  OverrideOptions overrides;
  std::string draft;               ///< a model that guesses; "": none
  std::vector<std::string> loras;  ///< FILE[:SCALE]
  RankOptions ranks;
  bool verbose = false, mlock = false, no_mmap = false, profile = false;
};

/// Says on stderr if there is no pre-tokenizer where one is needed.
void warn_of_missing_pre(const Vocabulary& vocabulary);
/// --pre
void add_pre_option(CLI::App& command, std::string& pre);

/// --no-tuned, which the command line itself sees to (report/tuned.h)
void add_tuned_option(CLI::App& command);

/// --lora FILE[:SCALE], any number of them
void add_lora_option(CLI::App& command, std::vector<std::string>& loras);
/// What was given to it. Throws a usage error for a scale that is no finite number.
std::vector<LoraFile> parse_loras(const std::vector<std::string>& loras);

/// -m alone.
void add_model_option(CLI::App& command, std::string& model);
/// -m, threads, context and the rest.
void add_model_options(CLI::App& command, ModelOptions& options);

/// -c, --window, --ctx. The first long name is the one that files and variables know: a `ctx` there
/// is meant for talks and does not change what is measured.
inline constexpr const char* kWindowNames = "-c,--window,--ctx";
/// Instead of the --ctx of add_model_options(): tokens of a window, for commands that measure a
/// text.
void add_window_option(CLI::App& command, ModelOptions& options);

/// --speculate, --draft
void add_speculation_options(CLI::App& command, ModelOptions& options, GenerateOptions& generate);

/// --session
void add_session_option(CLI::App& command, std::string& file, const std::string& help);
/// Whether there is a file to go on with. Throws Error where its directory is missing, so that
/// nothing is computed in vain.
bool has_session_file(const std::string& file);

/// Opens the model and says what is notable about it on stderr (with -v: all of it).
std::shared_ptr<const Model> load_model(const ModelOptions& options);
/// What an engine shares with a session of these options: context, batch, threads, type of keys and
/// values.
EngineOptions engine_options(const ModelOptions& options);
/// An engine as `wanted`; with -v says on stderr what it will take.
std::unique_ptr<Engine> open_engine(const Model& model, const ModelOptions& options,
                                    const EngineOptions& wanted);
/// A session on it; with -v says on stderr what it will take.
std::unique_ptr<Session> open_session(const Model& model, const ModelOptions& options);
/// Says on stderr where -c asks for more tokens than the model was trained for.
void warn_of_long_context(const Model& model, const ModelOptions& options);
/// Without -c: room for a prompt of so many tokens and its answer, within what the model was
/// trained for.
std::uint32_t context_for(const Model& model, std::size_t prompt, std::int64_t max_tokens);
/// Throws Error unless a prompt of n tokens fits into the context (or that shifts).
void require_room(const Session& session, std::size_t n);

}  // namespace cria::tools
