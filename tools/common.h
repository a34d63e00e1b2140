// What several subcommands share: finding and opening the model, sessions, whole files in, whole results out.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"
#include "tools/standard_output.h"

namespace cria::tools {

/// Options of every subcommand that runs a model.
struct ModelOptions {
  std::string model;
  SessionOptions session;
  std::string kv_type = "f16";
  std::string pre;
  bool verbose = false, mlock = false, no_mmap = false, profile = false;
};

/// CLI::Range without its bounds in the help.
template <typename T>
CLI::Validator range(T low, T high) {
  return CLI::Range(low, high).description("");
}

/// Says on stderr if there is no pre-tokenizer where one is needed.
void warn_of_missing_pre(const Vocabulary& vocabulary);
/// --pre
void add_pre_option(CLI::App& command, std::string& pre);

/// -m alone.
void add_model_option(CLI::App& command, std::string& model);
/// -m, threads, context and the rest.
void add_model_options(CLI::App& command, ModelOptions& options);

/// The named file, or where none is named: $CRIA_MODEL, else the demo model installed with (or built beside)
/// this program.
std::string find_model(const std::string& named);
KvType parse_kv_type(std::string_view text);

/// --session
void add_session_option(CLI::App& command, std::string& file, const std::string& help);
/// Whether there is a file to go on with. Throws Error where its directory is missing, so that nothing is
/// computed in vain.
bool has_session_file(const std::string& file);

/// Opens the model and says what is notable about it on stderr (with -v: all of it).
std::shared_ptr<const Model> load_model(const ModelOptions& options);
/// A session on it; with -v says on stderr what it will take.
std::unique_ptr<Session> open_session(const Model& model, const ModelOptions& options);
/// Throws Error unless a prompt of n tokens fits into the context (or that shifts).
void require_room(const Session& session, std::size_t n);
/// Generates; a long prompt is shown on a terminal as it is evaluated.
GenerateResult generate(Session& session, std::span<const TokenId> prompt, const GenerateOptions& options,
                        const TextSink& sink);
/// "12 tokens, 80.1 tokens/s; prompt 20 tokens, 400 tokens/s (and 100 evaluated before)"
std::string speed_line(const GenerateResult& result);
/// The time table of --profile on stderr, if it was asked for.
void print_profile(const Session& session, const ModelOptions& options);

/// The instruction sets that can run here, best first.
std::string available_kernel_names();
/// The kernels in use. Throws Error if $CRIA_ISA names none that can run here.
const KernelSet& kernels_in_use();

/// Makes `body` what the subcommand does; its result is the exit code.
void on_run(CLI::App* command, std::function<int()> body);

std::string read_file(const std::string& path);  ///< "-": stdin. Throws Error.
std::string read_stdin();
/// A file (or stdin) as it comes, in pieces of at most 1 MiB. Throws Error.
void read_pieces(const std::string& path, const std::function<void(std::string_view)>& sink);
/// The input of a subcommand that takes -p TEXT, -f FILE or stdin.
struct TextInput {
  std::optional<std::string> text;
  std::string file;
  void add_to(CLI::App& command, const std::string& what);
  [[nodiscard]] std::string read() const;
  /// In pieces, as it comes.
  void read_pieces(const std::function<void(std::string_view)>& sink) const;
};

/// Token ids separated by commas or white space. Throws Error if one is not in the vocabulary.
std::vector<TokenId> parse_ids(std::string_view text, std::size_t n_vocab);

}  // namespace cria::tools
