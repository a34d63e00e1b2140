// The flags of commands that run a model, and the model, session and engine that they ask for.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_parts.h"
#include "engine/session.h"
#include "tools/cli/flag.h"

namespace cria::tools {

/// Overrides of the file's metadata.
struct OverrideOptions {
  Words keys;                ///< KEY=TYPE:VALUE
  std::string rope_scaling;  ///< "": the file's
  std::optional<double> rope_factor, rope_base, yarn_attn_factor, yarn_beta_fast, yarn_beta_slow;
  std::optional<std::int64_t> yarn_orig_ctx;
};

/// Options of several ranks that share a model.
struct RankOptions {
  std::string shares;  ///< "": equal
  double timeout = 0;  ///< in seconds; 0: the default

  /// Call it before loading a model. threads: as --threads; 0: each rank's default. Throws
  /// Error for impossible values, and without other ranks.
  void apply(std::uint32_t threads) const;
};
Flags rank_flags(RankOptions& options);

/// Options of every command that runs a model.
struct ModelOptions {
  std::string model;
  EngineOptions session;
  std::string pre;
  OverrideOptions overrides;
  std::string draft;  ///< the draft model; "": none
  Words loras;        ///< FILE[:SCALE]
  RankOptions ranks;
  bool verbose = false, mlock = false, no_mmap = false, profile = false;
};
/// All flags of ModelOptions but the draft model.
Flags model_flags(ModelOptions& options);
/// Threads, batch, context, type of the KV cache.
Flags engine_flags(EngineOptions& session);
std::string_view kv_name(KvType type);  ///< "f16"
Flag model_flag(std::string& model);    ///< -m
Flag pre_flag(std::string& pre);
Flag tuned_flag();  ///< --no-tuned, which the program itself looks at (tools/cli/settings.h)
Flag lora_flag(Words& loras);
/// -c, --window, --ctx, instead of --ctx, for commands that measure a text. A `ctx` in the
/// configuration file is meant for conversations and does not change it.
Flag window_flag(std::uint32_t& window, std::uint32_t low = 1);
/// --speculate, --draft
Flags speculation_flags(ModelOptions& options, GenerateOptions& generate);

/// Throws Error for a directory with an adapter of PEFT, which no command reads.
void reject_peft(const std::string& directory);
/// Throws Error for a scale that is not a finite number.
std::vector<LoraFile> parse_loras(const Words& loras);
/// Prints a warning if a BPE vocabulary names no pre-tokenizer.
void warn_of_missing_pre(const Vocabulary& vocabulary);
/// Options of loading the model.
LoadOptions load_options(const ModelOptions& options);
/// Opens the model; prints its warnings to stderr (with -v all of them).
std::shared_ptr<const Model> load_model(const ModelOptions& options);
/// Options of the engine; loads the draft model.
EngineOptions engine_options(const ModelOptions& options);
/// An engine with these options; -v prints its memory.
std::unique_ptr<Engine> open_engine(const Model& model, const ModelOptions& options,
                                    const EngineOptions& wanted);
/// A session; -v prints its memory.
std::unique_ptr<Session> open_session(const Model& model, const ModelOptions& options);
/// `wanted` with KV positions for all sequences if they take at most half of the available memory
/// of every machine, else for fewer; at least for one sequence. n_ctx must be set. verbose: prints
/// the memory.
EngineOptions fit_positions(const Model& model, EngineOptions wanted, bool verbose);
/// Prints a warning if -c asks for more tokens than the model was trained for.
void warn_of_long_context(const Model& model, const ModelOptions& options);
/// The context without -c: large enough for the prompt and its answer, within the training context.
std::uint32_t context_for(const Model& model, std::size_t prompt, std::int64_t max_tokens);
/// Throws Error unless a prompt of n tokens fits into the context (or that shifts).
void require_room(const Session& session, std::size_t n);

}  // namespace cria::tools
