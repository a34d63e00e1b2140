#include "tools/options/model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <type_traits>

#include "engine/distribute/leader.h"
#include "engine/execute/machine.h"
#include "kernels/attention/attention.h"
#include "model/plural.h"
#include "tokenizer/bpe/pre_tokenizer.h"
#include "tools/cli/command_line.h"
#include "tools/model_store.h"
#include "tools/options/values.h"
#include "tools/ranks/process_ranks.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

const std::vector<std::pair<std::string, KvType>> kKvTypes = {
    {"f16", KvType::F16}, {"f32", KvType::F32}, {"q8_0", KvType::Q8_0}};

void check_pre_name(const std::string& name) {
  const std::vector<std::string_view> known = PreTokenizer::names();
  if (std::ranges::count(known, name) == 0)
    throw Error("", "unknown pre-tokenizer: " + without_controls(name) +
                        suggestion(name, Words(known.begin(), known.end())));
}

/// In llama.cpp the option is a number of tokens.
void check_draft(const std::string& text) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos)
    throw Error("", "expected the file of a draft model, got " + text +
                        "; cria chooses how many tokens to draft");
}

}  // namespace

void reject_peft(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(directory) / "adapter_config.json", error))
    throw Error(directory,
                "is an adapter of PEFT; convert_lora_to_gguf.py of llama.cpp makes the GGUF file "
                "that --lora takes");
}

namespace {

/// A colon before a slash belongs to the path. llama.cpp takes several files, separated by commas.
LoraFile parse_lora(const std::string& text) {
  LoraFile file{text, 1};
  if (text.find(".gguf,") != std::string::npos)
    throw Error("", "expected one file, got " + text + "; give --lora once for each");
  reject_peft(text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || text.find('/', colon) != std::string::npos) return file;
  const std::string number = text.substr(colon + 1);
  char* end = nullptr;
  file.scale = std::strtof(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !std::isfinite(file.scale))
    throw Error("", "expected FILE or FILE:SCALE with a finite number, got " + text);
  file.path = text.substr(0, colon);
  return file;
}

constexpr const char* kOverride = "--override-kv";

/// llama.cpp's names of types: int, float, str (bool is the same).
std::string with_gguf_type(const std::string& text) {
  for (const auto& [name, type] :
       {std::pair{"=int:", "=i64:"}, {"=float:", "=f64:"}, {"=str:", "=string:"}}) {
    const std::size_t at = text.find('=');
    if (at != std::string::npos && std::string_view(text).substr(at).starts_with(name))
      return text.substr(0, at) + type + text.substr(at + std::string_view(name).size());
  }
  return text;
}

MetadataOverride parse_override(const std::string& text) {
  auto [key, data] = parse_metadata(kOverride, with_gguf_type(text));
  MetadataOverride out{std::move(key), {}};
  std::visit(
      [&out, &text](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, GgufArray>) {
          throw UsageError(kOverride, "expected a number, true, false or a text, got an array");
        } else if constexpr (std::is_same_v<T, std::uint64_t>) {
          if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            throw UsageError(kOverride, "number too large: " + text);
          out.value = static_cast<std::int64_t>(value);
        } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
          out.value = value;
        } else if constexpr (std::is_floating_point_v<T>) {
          out.value = double{value};
        } else {
          out.value = std::int64_t{value};
        }
      },
      static_cast<const GgufDataVariant&>(data));
  return out;
}

std::vector<MetadataOverride> metadata_overrides(const OverrideOptions& options) {
  std::vector<MetadataOverride> out;
  for (const std::string& text : options.keys) out.push_back(parse_override(text));
  const auto add = [&out](const char* key, const auto& value) {
    if (value) out.push_back({key, *value});
  };
  if (!options.rope_scaling.empty()) out.push_back({".rope.scaling.type", options.rope_scaling});
  add(".rope.scaling.factor", options.rope_factor);
  add(".rope.freq_base", options.rope_base);
  add(".rope.scaling.original_context_length", options.yarn_orig_ctx);
  add(".rope.scaling.attn_factor", options.yarn_attn_factor);
  add(".rope.scaling.yarn_beta_fast", options.yarn_beta_fast);
  add(".rope.scaling.yarn_beta_slow", options.yarn_beta_slow);
  return out;
}

/// --override-kv, --rope-*, --yarn-*
Flags override_flags(OverrideOptions& o) {
  constexpr double kLow = 1e-9, kHigh = 1e12;
  const auto set_scale = [&o](const std::string& word) {
    std::optional<double> scale;
    into::number(scale, kLow, kHigh).set({word});
    o.rope_factor = 1 / *scale;
  };
  return in_group(
      {{kOverride, "KEY=TYPE:VALUE",
        "use this value instead of the one in the model's metadata; may be repeated",
        into::each(o.keys)},
       {"--rope-scaling", "", "how positions are scaled (default: as in the file)",
        into::choice(o.rope_scaling, {"none", "linear", "yarn"})},
       {"--rope-scale", "N", "scale positions for a context N times the trained one",
        into::number(o.rope_factor, kLow, kHigh)},
       {"--rope-freq-base", "N", "base of RoPE's frequencies",
        into::number(o.rope_base, kLow, kHigh)},
       {"--rope-freq-scale", "N", "1 / --rope-scale", into::call(set_scale)},
       {"--yarn-orig-ctx", "N", "YaRN: size of the trained context, in tokens",
        into::number(o.yarn_orig_ctx, 1, kHigh)},
       {"--yarn-attn-factor", "N", "YaRN: factor of the attention's magnitude",
        into::number(o.yarn_attn_factor, kLow, kHigh)},
       {"--yarn-beta-fast", "N", "YaRN: turns from which a dimension keeps its frequency",
        into::number(o.yarn_beta_fast, kLow, kHigh)},
       {"--yarn-beta-slow", "N", "YaRN: turns up to which a dimension is interpolated",
        into::number(o.yarn_beta_slow, kLow, kHigh)}},
      "Metadata and RoPE");
}

}  // namespace

Flag model_flag(std::string& model) {
  return {"-m,--model", "FILE",
          "GGUF file, or the name of a model that cria list shows (default: the bundled demo "
          "model)",
          into::text(model, [](const std::string& name) {
            if (name.empty()) throw UsageError("the name of the model is empty");
          })};
}

Flag pre_flag(std::string& pre) {
  return {"--pre", "NAME", "pre-tokenizer of a BPE vocabulary, if the file's is missing or wrong",
          into::text(pre, check_pre_name)};
}

Flag tuned_flag() {
  return {"--no-tuned", "",
          "ignore the options that cria bench --tune --remember has found for this model",
          into::action([] {})};
}

Flag lora_flag(Words& loras) {
  return {"--lora", "FILE[:SCALE]",
          "LoRA adapter (GGUF) to add to the model, multiplied by SCALE; may be repeated",
          into::each(loras, parse_lora)};
}

std::vector<LoraFile> parse_loras(const Words& loras) {
  std::vector<LoraFile> files;
  for (const std::string& text : loras) files.push_back(parse_lora(text));
  return files;
}

Flags rank_flags(RankOptions& options) {
  return {{"--shares", "N,N,...|auto",
           "with several ranks (mpirun): each rank's share of the work, or auto: by the memory "
           "read rate, measured at the start (default: equal shares)",
           into::text(options.shares)},
          {"--rank-timeout", "SECONDS",
           "with several ranks: stop all if one does not respond within this time (default: 7)",
           into::number(options.timeout, 0.1, 86400.0)}};
}

void RankOptions::apply(std::uint32_t threads) const {
  if (!shares.empty()) set_shares(shares, threads);
  if (timeout != 0) set_rank_timeout(timeout);
}

Flags engine_flags(EngineOptions& session) {
  Target context = into::number(session.n_ctx, 0, 1 << 30);
  context.default_text.clear();
  context.set = [set = std::move(context.set)](const Words& given) {
    if (given.back() == "0") print_note("-c 0 is the default: the model's context, up to 4096");
    set(given);
  };
  return {
      {"-t,--threads", "N", "threads (default: the physical cores)",
       into::number(session.threads, 1, 1024)},
      {"--threads-prefill", "N", "threads for prompts (default: as --threads)",
       into::number(session.threads_prefill, 1, 1024)},
      {"-b,--batch", "N", "prompt tokens evaluated at once",
       into::number(session.n_batch, 1, 4096)},
      {"-c,--ctx", "N", "context size in tokens (default: the model's, up to 4096)",
       std::move(context)},
      {"--kv-type",
       "",
       "type of the KV cache",
       into::choice(session.kv_type, kKvTypes, "f16"),
       {.other = "q8_0 is the smallest"}},
  };
}

Flags model_flags(ModelOptions& options) {
  Flags rows = {model_flag(options.model), pre_flag(options.pre), lora_flag(options.loras)};
  const auto add = [&rows](Flags more) { std::ranges::move(more, std::back_inserter(rows)); };
  add(engine_flags(options.session));
  add(override_flags(options.overrides));
  add(rank_flags(options.ranks));
  add({{"--mlock", "", "lock the model in memory", into::flag(options.mlock)},
       {"--no-mmap", "", "read the file into memory instead of mapping it",
        into::flag(options.no_mmap)},
       tuned_flag(),
       {"--profile", "", "print a table of the time per graph node to stderr at the end",
        into::flag(options.profile)},
       {"-v,--verbose", "", "print notes on model, memory and speed to stderr",
        into::flag(options.verbose)}});
  for (Flag& row : rows)  // a command's own options come first
    if (row.rules.group.empty() && only({row}, "--model,--threads,--batch,--ctx,--verbose").empty())
      row.rules.group = "Model and memory";
  return rows;
}

Flag window_flag(std::uint32_t& window, std::uint32_t low) {
  return {"-c,--window,--ctx", "N", "tokens per window", into::number(window, low, 1 << 30)};
}

Flags speculation_flags(ModelOptions& options, GenerateOptions& generate) {
  Target mode = into::choice(generate.speculate,
                             {{"auto", Speculate::Auto},
                              {"off", Speculate::Off},
                              {"lookup", Speculate::Lookup},
                              {"mtp", Speculate::Layers}},
                             "auto");
  options.session.own_drafts = true;
  mode.set = [set = mode.set, &options, &generate](const Words& given) {
    set(given);
    options.session.own_drafts =
        generate.speculate == Speculate::Auto || generate.speculate == Speculate::Layers;
  };
  return {
      {"--speculate", "MODE",
       "speculative decoding: auto (when faster), off, lookup (whenever the text repeats "
       "itself), or mtp (always, by the model's own prediction layers); never changes an answer",
       std::move(mode)},
      {"--draft", "FILE",
       "draft model for speculative decoding: smaller, with the same vocabulary; never changes "
       "an answer",
       into::text(options.draft, check_draft)}};
}

void warn_of_missing_pre(const Vocabulary& vocabulary) {
  if (vocabulary.model == "gpt2" && vocabulary.pre.empty())
    print_warning(
        "missing key tokenizer.ggml.pre: words are split in the default way, which may not be the "
        "model's (--pre NAME overrides it)");
}

namespace {

void warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) print_warning(warning);
}

/// Threads that wait for one another are slower than fewer of them.
void note_many_threads(const ModelOptions& options) {
  const unsigned wanted = std::max(options.session.threads, options.session.threads_prefill),
                 here = usable_processors();
  if (wanted > here && (options.verbose || is_terminal(stderr)))
    print_note(counted(wanted, "thread") + " on " + counted(here, "processor") +
               ": this is slower than -t " + std::to_string(here));
}

std::uint64_t parameter_count(const GgufFile& file) {
  std::uint64_t count = 0;
  for (const TensorView& tensor : file.tensors()) count += tensor.cols() * tensor.rows();
  return count;
}

}  // namespace

LoadOptions load_options(const ModelOptions& options) {
  return {.mmap = !options.no_mmap,
          .mlock = options.mlock,
          .pre_tokenizer = options.pre,
          .overrides = metadata_overrides(options.overrides),
          .loras = parse_loras(options.loras),
          .on_note = print_note,
          .cluster = rank_leader()};
}

std::shared_ptr<const Model> load_model(const ModelOptions& options) {
  options.ranks.apply(options.session.threads);
  const std::string path = find_model(options.model);
  auto model = Model::load(path, load_options(options));
  warn_of_missing_pre(model->vocabulary());
  note_many_threads(options);
  if (!options.verbose) return model;
  warn(model->file().warnings());
  warn(model->vocabulary().warnings);
  warn(model->warnings());
  const ModelConfig& config = model->config();
  print_line("model: " + path + ": " +
             (config.name.empty() ? "unnamed" : without_controls(config.name)) + ", " +
             config.arch + ", " + human_count(parameter_count(model->file())) + " parameters, " +
             human_bytes(model->file().file_bytes()) + ", trained for " +
             counted(config.n_ctx_train, "token"));
  return model;
}

std::string_view kv_name(KvType type) {
  return std::ranges::find(kKvTypes, type, &std::pair<std::string, KvType>::second)->first;
}

namespace {

void print_memory(const EngineMemory& memory, const ModelOptions& options) {
  print_line("memory: file " + human_bytes(memory.file) + ", keys and values " +
             human_bytes(memory.kv) + " (" + std::string(kv_name(options.session.kv_type)) +
             "), work " + human_bytes(memory.work) + "; available " +
             human_bytes(memory.available));
}

void print_kv_memory(const EngineMemory& memory, std::uint64_t positions) {
  print_line("memory: keys and values " + human_bytes(memory.kv) + " for " +
             counted(positions, "position") + ", work " + human_bytes(memory.work) +
             "; available " + human_bytes(memory.available));
}

}  // namespace

EngineOptions engine_options(const ModelOptions& options) {
  EngineOptions engine = options.session;
  if (!options.draft.empty())
    engine.draft = Model::load(find_model(options.draft), {.cluster = rank_leader()});
  return engine;
}

std::unique_ptr<Engine> open_engine(const Model& model, const ModelOptions& options,
                                    const EngineOptions& wanted) {
  if (options.verbose) print_memory(engine_memory(model, wanted), options);
  auto engine = std::make_unique<Engine>(model, wanted);
  engine->profile(options.profile);
  return engine;
}

std::unique_ptr<Session> open_session(const Model& model, const ModelOptions& options) {
  const EngineOptions wanted = engine_options(options);
  if (options.verbose)
    print_memory(session_memory(model, wanted), options);  // before anything is allocated
  auto session = std::make_unique<Session>(model, wanted);
  session->profile(options.profile);
  if (options.verbose)
    for (const std::string& line : rank_memory_lines()) print_line(line);
  if (options.verbose) {
    const EngineOptions& got = session->options();
    print_line("session: context " + std::to_string(got.n_ctx) + ", batch " +
               std::to_string(got.n_batch) + ", threads " + std::to_string(got.threads) +
               " (prompts " + std::to_string(got.threads_prefill) + "), " +
               std::string(got.kernels->isa));
  }
  return session;
}

void warn_of_long_context(const Model& model, const ModelOptions& options) {
  const std::uint32_t trained = model.config().n_ctx_train;
  if (options.session.n_ctx > trained)
    print_warning("a context of " + counted(options.session.n_ctx, "token") +
                  ", but the model was trained for " + std::to_string(trained) +
                  ": beyond them it may talk nonsense");
}

std::uint32_t context_for(const Model& model, std::size_t prompt, std::int64_t max_tokens) {
  constexpr std::size_t kUsual = 4096;
  const std::size_t answer = max_tokens < 0 ? kUsual / 2 : static_cast<std::size_t>(max_tokens);
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(model.config().n_ctx_train, std::max(kUsual, prompt + answer)));
}

void require_room(const Session& session, std::size_t n) {
  const std::uint32_t n_ctx = session.options().n_ctx;
  if (n > n_ctx && !session.options().context_shift)
    throw Error("", "the prompt is too long: expected at most " + counted(n_ctx, "token") +
                        ", got " + std::to_string(n) + " (-c N makes the context larger)");
}

EngineOptions fit_positions(const Model& model, EngineOptions wanted, bool verbose) {
  constexpr double kMost = 0.5;  // share of the available memory: the file needs some, too
  wanted.positions = std::uint64_t{wanted.n_ctx} * wanted.sequences;
  for (;; wanted.positions = std::max<std::uint64_t>(wanted.n_ctx, wanted.positions / 2)) {
    if (verbose) print_kv_memory(engine_memory(model, wanted), wanted.positions);
    if (wanted.positions == wanted.n_ctx) return wanted;
    const double fraction = kv_fraction(model, wanted);
    if (verbose && rank_leader() != nullptr)
      print_line("memory: " + fixed(100 * fraction, 1) + " % where least is left of all ranks");
    if (fraction <= kMost) return wanted;
  }
}

}  // namespace cria::tools
