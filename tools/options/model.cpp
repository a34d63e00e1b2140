#include "tools/options/model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "model/plural.h"
#include "tokenizer/bpe/pre_tokenizer.h"
#include "tools/options/command.h"
#include "tools/options/find_model.h"
#include "tools/options/nearest.h"
#include "tools/ranks/process_ranks.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace fs = std::filesystem;

void add_model_option(CLI::App& command, std::string& model) {
  command
      .add_option("-m,--model", model,
                  "GGUF file, or the name of a model that cria list shows (default: the bundled "
                  "demo model)")
      ->type_name("FILE");
}

namespace {

/// What is wrong with the name, or "".
std::string check_pre_name(const std::string& name) {
  const std::vector<std::string_view> known = PreTokenizer::names();
  if (std::ranges::count(known, name) != 0) return "";
  return "no such pre-tokenizer: " + without_controls(name) +
         suggestion(name, std::vector<std::string>(known.begin(), known.end()));
}

}  // namespace

void add_pre_option(CLI::App& command, std::string& pre) {
  command
      .add_option("--pre", pre,
                  "pre-tokenizer of a BPE vocabulary, if the file's is missing or wrong")
      ->type_name("NAME")
      ->check(check_pre_name);
}

void add_tuned_option(CLI::App& command) {
  command.add_flag_callback(
      "--no-tuned", [] {},
      "ignore the options that cria bench --tune --remember has found for this model");
}

void add_lora_option(CLI::App& command, std::vector<std::string>& loras) {
  command
      .add_option("--lora", loras,
                  "LoRA adapter (GGUF) to add to the model, multiplied by SCALE; may be repeated")
      ->type_name("FILE[:SCALE]")
      ->allow_extra_args(false);
}

// A colon with a slash behind it belongs to the path.
std::vector<LoraFile> parse_loras(const std::vector<std::string>& loras) {
  std::vector<LoraFile> files;
  for (const std::string& text : loras) {
    LoraFile& file = files.emplace_back(LoraFile{text, 1});
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || text.find('/', colon) != std::string::npos) continue;
    const std::string number = text.substr(colon + 1);
    char* end = nullptr;
    file.scale = std::strtof(number.c_str(), &end);
    if (number.empty() || *end != '\0' || !std::isfinite(file.scale))
      throw CLI::ValidationError("--lora",
                                 "expected FILE or FILE:SCALE with a finite number, got " + text);
    file.path = text.substr(0, colon);
  }
  return files;
}

void warn_of_missing_pre(const Vocabulary& vocabulary) {
  if (vocabulary.model == "gpt2" && vocabulary.pre.empty())
    print_warning(
        "missing key tokenizer.ggml.pre: words are split in the default way, which may not be the "
        "model's (--pre NAME overrides it)");
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  SessionOptions& session = options.session;
  add_model_option(command, options.model);
  add_pre_option(command, options.pre);
  add_lora_option(command, options.loras);
  command.add_option("-t,--threads", session.threads, "threads (default: the physical cores)")
      ->type_name("N")
      ->check(range(1, 1024));
  command
      .add_option("--threads-prefill", session.threads_prefill,
                  "threads for prompts (default: as --threads)")
      ->type_name("N")
      ->check(range(1, 1024));
  command.add_option("-b,--batch", session.n_batch, "prompt tokens evaluated at once")
      ->type_name("N")
      ->check(range(1, 4096))
      ->capture_default_str();
  command
      .add_option("-c,--ctx", session.n_ctx,
                  "context size in tokens (default: the model's, at most 4096)")
      ->type_name("N")
      ->check(range(1, 1 << 30));
  command.add_option("--kv-type", options.kv_type, "type of the cached keys and values")
      ->check(CLI::IsMember({"f16", "f32", "q8_0"}))
      ->capture_default_str();
  add_override_options(command, options.overrides);
  options.ranks.add_to(command);
  command.add_flag("--mlock", options.mlock, "lock the model in memory");
  command.add_flag("--no-mmap", options.no_mmap, "read the file into memory instead of mapping it");
  add_tuned_option(command);
  command.add_flag("--profile", options.profile,
                   "print a table of the time per graph node to stderr at the end");
  command.add_flag("-v,--verbose", options.verbose,
                   "print notes on model, memory and speed to stderr");
}

void add_window_option(CLI::App& command, ModelOptions& options) {
  options.session.n_ctx = 512;
  command.remove_option(command.get_option("--ctx"));
  command.add_option(kWindowNames, options.session.n_ctx, "tokens per window")
      ->type_name("N")
      ->check(range(1, 1 << 30))
      ->capture_default_str();
}

void add_speculation_options(CLI::App& command, ModelOptions& options, GenerateOptions& generate) {
  static const std::map<std::string, Speculate> kWays = {
      {"auto", Speculate::Auto}, {"off", Speculate::Off}, {"lookup", Speculate::Lookup}};
  const auto set = [&generate](const std::string& way) { generate.speculate = kWays.at(way); };
  command
      .add_option_function<std::string>("--speculate", set,
                                        "guess tokens and evaluate them ahead: auto (where that is "
                                        "faster), off, or lookup (wherever the "
                                        "text repeats itself); never changes an answer")
      ->type_name("WAY")
      ->check(CLI::IsMember({"auto", "off", "lookup"}))
      ->default_str("auto");
  command
      .add_option("--draft", options.draft,
                  "a smaller model with the same vocabulary that guesses; never changes an answer")
      ->type_name("FILE");
}

void add_session_option(CLI::App& command, std::string& file, const std::string& help) {
  command.add_option("--session", file, help + "; the file works with the same model only")
      ->type_name("FILE");
}

bool has_session_file(const std::string& file) {
  if (file.empty()) return false;
  refuse_ranks(file);
  std::error_code error;
  if (fs::exists(file, error)) return true;
  const fs::path directory = fs::path(file).parent_path();
  if (!directory.empty() && !fs::is_directory(directory, error))
    throw Error(file, "cannot be written: no such directory");
  return false;
}

namespace {

void warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) print_warning(warning);
}

std::uint64_t parameter_count(const GgufFile& file) {
  std::uint64_t count = 0;
  for (const TensorView& tensor : file.tensors()) count += tensor.cols() * tensor.rows();
  return count;
}

}  // namespace

std::shared_ptr<const Model> load_model(const ModelOptions& options) {
  options.ranks.apply(options.session.threads);
  const std::string path = find_model(options.model);
  auto model = Model::load(path, {.mmap = !options.no_mmap,
                                  .mlock = options.mlock,
                                  .pre_tokenizer = options.pre,
                                  .overrides = metadata_overrides(options.overrides),
                                  .loras = parse_loras(options.loras)});
  warn_of_missing_pre(model->vocabulary());
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

namespace {

void print_memory(const EngineMemory& memory, const ModelOptions& options) {
  print_line("memory: file " + human_bytes(memory.file) + ", keys and values " +
             human_bytes(memory.kv) + " (" + options.kv_type + "), work " +
             human_bytes(memory.work) + "; available " + human_bytes(memory.available));
}

}  // namespace

EngineOptions engine_options(const ModelOptions& options) {
  EngineOptions engine;
  engine.n_ctx = options.session.n_ctx;
  engine.rope_ctx = options.session.rope_ctx;
  engine.n_batch = options.session.n_batch;
  engine.threads = options.session.threads;
  engine.threads_prefill = options.session.threads_prefill;
  engine.kv_type = parse_kv_type(options.kv_type);
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
  SessionOptions wanted = options.session;
  wanted.kv_type = parse_kv_type(options.kv_type);
  if (!options.draft.empty()) wanted.draft = Model::load(find_model(options.draft));
  if (options.verbose)
    print_memory(session_memory(model, wanted), options);  // before anything is allocated
  auto session = std::make_unique<Session>(model, wanted);
  session->profile(options.profile);
  if (options.verbose)
    for (const std::string& line : rank_memory_lines()) print_line(line);
  if (options.verbose) {
    const SessionOptions& got = session->options();
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

}  // namespace cria::tools
