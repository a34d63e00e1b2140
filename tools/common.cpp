#include "tools/common.h"

#include <unistd.h>
#include <algorithm>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "tools/interrupt.h"
#include "tools/table.h"
#include "tools/terminal.h"

namespace cria::tools {
namespace fs = std::filesystem;

void add_model_option(CLI::App& command, std::string& model) {
  command.add_option("-m,--model", model, "GGUF file (default: $CRIA_MODEL, else the bundled demo model)")
      ->type_name("FILE");
}

void add_pre_option(CLI::App& command, std::string& pre) {
  command
      .add_option("--pre", pre,
                  "pre-tokenizer of a byte-pair vocabulary, where the file's is missing or wrong")
      ->type_name("NAME");
}

void warn_of_missing_pre(const Vocabulary& vocabulary) {
  if (vocabulary.model == "gpt2" && vocabulary.pre.empty())
    std::cerr << "cria: warning: missing key tokenizer.ggml.pre: words are split in the default way, which "
                 "may not be "
                 "the model's (--pre NAME overrides it)\n";
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  SessionOptions& session = options.session;
  add_model_option(command, options.model);
  add_pre_option(command, options.pre);
  command.add_option("-t,--threads", session.threads, "threads (default: the physical cores)")
      ->type_name("N")
      ->check(range(1, 4096));
  command
      .add_option("--threads-prefill", session.threads_prefill, "threads for prompts (default: as --threads)")
      ->type_name("N")
      ->check(range(1, 4096));
  command.add_option("-b,--batch", session.n_batch, "prompt tokens evaluated at once")
      ->type_name("N")
      ->check(range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("-c,--ctx", session.n_ctx, "tokens of context (default: the model's, at most 4096)")
      ->type_name("N")
      ->check(range(1, 1 << 30));
  command.add_option("--kv-type", options.kv_type, "type of the cached keys and values")
      ->check(CLI::IsMember({"f16", "f32", "q8_0"}))
      ->capture_default_str();
  command.add_flag("--mlock", options.mlock, "keep the model in memory");
  command.add_flag("--no-mmap", options.no_mmap, "read the file into memory instead of mapping it");
  command.add_flag("--profile", options.profile, "a table of the time per graph node on stderr at the end");
  command.add_flag("-v,--verbose", options.verbose, "notes on model, memory and speed on stderr");
}

void add_session_option(CLI::App& command, std::string& file, const std::string& help) {
  command.add_option("--session", file, help + "; it is refused with another model")->type_name("FILE");
}

bool has_session_file(const std::string& file) {
  if (file.empty()) return false;
  std::error_code error;
  if (fs::exists(file, error)) return true;
  const fs::path directory = fs::path(file).parent_path();
  if (!directory.empty() && !fs::is_directory(directory, error))
    throw Error(file, "cannot be written: no such directory");
  return false;
}

std::string find_model(const std::string& named) {
  if (!named.empty()) return named;
  if (const char* environment = std::getenv("CRIA_MODEL"); environment != nullptr && *environment != '\0')
    return environment;
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"../share/cria", "../data"}) {  // installed; the build tree
    const fs::path candidate = bin / place / "cria-demo-Q8_0.gguf";
    if (fs::exists(candidate, error)) return candidate.lexically_normal().string();
  }
  throw Error("", "no model: the bundled one is not beside " + bin.string() + "; name one with -m FILE");
}

std::string available_kernel_names() {
  std::string names;
  for (const KernelSet* set : available_kernels())
    names += (names.empty() ? "" : ", ") + std::string(set->isa);
  return names;
}

const KernelSet& kernels_in_use() {
  if (const KernelSet* kernels = active_kernels()) return *kernels;
  throw Error("CRIA_ISA names no instruction set that can run here: expected one of " +
              available_kernel_names());
}

KvType parse_kv_type(std::string_view text) {
  return text == "f32" ? KvType::F32 : text == "q8_0" ? KvType::Q8_0 : KvType::F16;
}

namespace {

void warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) std::cerr << "cria: warning: " << warning << '\n';
}

std::uint64_t parameter_count(const GgufFile& file) {
  std::uint64_t count = 0;
  for (const TensorView& tensor : file.tensors()) count += tensor.cols() * tensor.rows();
  return count;
}

}  // namespace

std::shared_ptr<const Model> load_model(const ModelOptions& options) {
  const std::string path = find_model(options.model);
  auto model = Model::load(
      path, {.map = options.no_mmap ? MapMode::Read : MapMode::Mmap, .mlock = options.mlock}, options.pre);
  warn_of_missing_pre(model->vocabulary());
  if (!options.verbose) return model;
  warn(model->file().warnings());
  warn(model->config().warnings);
  warn(model->vocabulary().warnings);
  warn(model->weights().warnings);
  const LlamaConfig& config = model->config();
  std::cerr << "model: " << path << ": " << (config.name.empty() ? "unnamed" : without_controls(config.name))
            << ", " << config.arch->name << ", " << human_count(parameter_count(model->file()))
            << " parameters, " << human_bytes(model->file().file_bytes()) << ", trained for "
            << config.n_ctx_train << " tokens\n";
  return model;
}

std::unique_ptr<Session> open_session(const Model& model, const ModelOptions& options) {
  SessionOptions wanted = options.session;
  wanted.kv_type = parse_kv_type(options.kv_type);
  if (options.verbose) {  // before anything is allocated
    const SessionMemory memory = session_memory(model, wanted);
    std::cerr << "memory: file " << human_bytes(memory.file) << ", keys and values " << human_bytes(memory.kv)
              << " (" << options.kv_type << "), work " << human_bytes(memory.work) << "; available "
              << human_bytes(memory.available) << '\n';
  }
  auto session = std::make_unique<Session>(model, wanted);
  session->profile(options.profile);
  if (options.verbose) {
    const SessionOptions& got = session->options();
    std::cerr << "session: context " << got.n_ctx << ", batch " << got.n_batch << ", threads " << got.threads
              << " (prompts " << got.threads_prefill << "), " << got.kernels->isa << '\n';
  }
  return session;
}

void print_profile(const Session& session, const ModelOptions& options) {
  if (!options.profile) return;
  std::vector<std::pair<std::string, double>> sums;  // in the graph's order, layers taken together
  double total = 0;
  for (const auto& [node, seconds] : session.profile()) {
    std::string label = node->name;
    if (label.starts_with("blk.")) label = "blk.*" + label.substr(std::min(label.find('.', 4), label.size()));
    label += " (" + std::string(name(node->op)) + ")";
    const auto found =
        std::find_if(sums.begin(), sums.end(), [&](const auto& sum) { return sum.first == label; });
    if (found == sums.end())
      sums.emplace_back(label, seconds);
    else
      found->second += seconds;
    total += seconds;
  }
  Table table({"node", ">ms", ">%"});
  for (const auto& [label, seconds] : sums)
    table.add({label, fixed(1e3 * seconds, 2), fixed(100 * seconds / total, 1)});
  table.add({"all", fixed(1e3 * total, 2), "100.0"});
  std::cerr << table.text();
}

void require_room(const Session& session, std::size_t n) {
  const std::uint32_t n_ctx = session.options().n_ctx;
  if (n > n_ctx && !session.options().context_shift)
    throw Error("", "the prompt is too long: expected at most " + std::to_string(n_ctx) + " tokens, got " +
                        std::to_string(n) + " (-c N makes the context larger)");
}

std::string speed_line(const GenerateResult& result) {
  const auto part = [](std::size_t n, double seconds) {
    return std::to_string(n) + " tokens" +
           (seconds > 0 ? ", " + fixed(static_cast<double>(n) / seconds, 1) + " tokens/s" : "");
  };
  return part(result.tokens.size(), result.decode_seconds) + "; prompt " +
         part(result.prompt_tokens, result.prompt_seconds) +
         (result.cached_tokens > 0 ? " (and " + std::to_string(result.cached_tokens) + " evaluated before)"
                                   : "");
}

GenerateResult generate(Session& session, std::span<const TokenId> prompt, const GenerateOptions& options,
                        const TextSink& sink) {
  const std::span<const TokenId> cached = session.tokens();
  const auto same =
      std::mismatch(prompt.begin(), prompt.end(), cached.begin(), cached.end()).first - prompt.begin();
  const auto begin = static_cast<std::size_t>(same);
  const std::size_t chunk = session.options().n_batch;
  if (!is_terminal(stderr) || prompt.size() - begin <= 2 * chunk || prompt.size() > session.options().n_ctx)
    return session.generate(prompt, options, sink);

  const auto start = std::chrono::steady_clock::now();
  std::size_t done = begin;
  {
    Progress progress("reading", "tokens", prompt.size() - begin);
    session.truncate(begin);
    for (; done + chunk < prompt.size() && !(options.interrupt != nullptr && *options.interrupt);
         done += chunk) {
      session.eval(prompt.subspan(done, chunk));
      progress.update(done + chunk - begin);
    }
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  GenerateResult result = session.generate(prompt, options, sink);
  result.prompt_tokens += done - begin;
  result.cached_tokens -= done - begin;
  result.prompt_seconds += spent.count();
  return result;
}

void on_run(CLI::App* command, std::function<int()> body) {
  command->callback([body = std::move(body)] {
    if (const int code = body(); code != 0) throw CLI::RuntimeError(code);
  });
}

namespace {

constexpr std::uint64_t kLongestPrompt = 64 << 20;  // bytes: more than any context holds

void require_prompt_size(std::uint64_t bytes, const std::string& name) {
  if (bytes > kLongestPrompt)
    throw Error(name, "larger than a prompt may be: expected at most " + std::to_string(kLongestPrompt) +
                          " bytes, got " + std::to_string(bytes));
}

void read_stream(std::FILE* stream, const std::string& name,
                 const std::function<void(std::string_view)>& sink) {
  constexpr std::size_t kPiece = 1 << 20;
  std::string buffer(kPiece, '\0');
  for (;;) {
    if (!wait_readable(fileno(stream))) throw Interrupted();
    const ssize_t n = ::read(fileno(stream), buffer.data(), buffer.size());  // what there is, no more
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) throw Error(name, std::string("cannot be read: ") + std::strerror(errno));
    if (n == 0) return;
    sink(std::string_view(buffer).substr(0, static_cast<std::size_t>(n)));
  }
}

}  // namespace

void read_pieces(const std::string& path, const std::function<void(std::string_view)>& sink) {
  if (path == "-") return read_stream(stdin, "stdin", sink);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) throw Error(path, std::string("cannot be opened: ") + std::strerror(errno));
  read_stream(file.get(), path, sink);
}

std::string read_stdin() { return read_file("-"); }

std::string read_file(const std::string& path) {
  std::string bytes;
  read_pieces(path, [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

void TextInput::add_to(CLI::App& command, const std::string& what) {
  CLI::Option* literal = command.add_option("-p,--prompt", text, what)->type_name("TEXT");
  command.add_option("-f,--file", file, what + ", from a file (-: stdin, the default)")
      ->type_name("FILE")
      ->excludes(literal);
}

std::string TextInput::read() const {
  const std::string name = file.empty() || file == "-" ? "stdin" : file;
  std::error_code unknown;  // of a pipe, say
  if (const std::uintmax_t size = fs::file_size(name == "stdin" ? "/dev/stdin" : name, unknown);
      !text && !unknown)
    require_prompt_size(size, name);
  std::string bytes;
  read_pieces([&](std::string_view piece) {
    bytes += piece;
    require_prompt_size(bytes.size(), name);
  });
  return bytes;
}

void TextInput::read_pieces(const std::function<void(std::string_view)>& sink) const {
  if (text) return sink(*text);
  tools::read_pieces(file.empty() ? "-" : file, sink);
}

std::vector<TokenId> parse_ids(std::string_view text, std::size_t n_vocab) {
  constexpr std::string_view kSeparators = ", \t\r\n";
  std::vector<TokenId> ids;
  for (std::size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;) {
    const std::string_view word = text.substr(at, text.find_first_of(kSeparators, at) - at);
    TokenId id = -1;
    const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (bad != std::errc() || end != word.data() + word.size() || id < 0 ||
        static_cast<std::size_t>(id) >= n_vocab)
      throw Error("", "not a token id: expected 0 to " + std::to_string(n_vocab - 1) + ", got " +
                          std::string(word.substr(0, 40)));
    ids.push_back(id);
    at = text.find_first_not_of(kSeparators, at + word.size());
  }
  return ids;
}

}  // namespace cria::tools
