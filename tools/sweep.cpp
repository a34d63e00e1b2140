// `cria sweep`: which quantization of a model to run on this machine. Figures of every file, a table, plots.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/perplexity.h"
#include "engine/team.h"
#include "tools/commands.h"
#include "tools/common.h"
#include "tools/interrupt.h"
#include "tools/output_file.h"
#include "tools/roofline.h"
#include "tools/sweep_report.h"
#include "tools/terminal.h"

namespace cria::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBaseLogits = "base.logits";

struct SweepOptions {
  ModelOptions model;  ///< the base
  std::vector<std::string> files;
  std::string text, directory;
  PerplexityOptions windows{.window = 512, .stride = 0, .max_windows = 40};
  std::size_t prompt = 512, decode = 64;
  unsigned repetitions = 3;
  bool json = false;
};

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown CPU";
}

void write_file(const std::string& path, const std::string& content) {
  OutputFile file(path);
  file.write(content);
  file.finish();
}

/// Size, and what a token costs.
SweepRow describe(const std::string& name, const Model& model) {
  SweepRow row;
  row.name = name;
  std::uint64_t bytes = 0, values = 0;
  std::map<DType, std::uint64_t> by_type;
  for (const TensorView& tensor : model.file().tensors()) {
    bytes += tensor.bytes;
    values += tensor.rows() * tensor.cols();
    by_type[tensor.dtype] += tensor.bytes;
  }
  row.dtype = cria::name(
      std::ranges::max_element(by_type, {}, [](const auto& entry) { return entry.second; })->first);
  row.file_bytes = model.file().file_bytes();
  for (const Node& node : model.graph().nodes) row.read_bytes += node.weight_bytes();
  row.bits_per_weight = 8.0 * static_cast<double>(bytes) / static_cast<double>(values);
  return row;
}

/// Tokens per second of work on n tokens, after one run that is not counted.
template <class Work>
Estimate rate(unsigned repetitions, std::size_t n, Session& session, Work&& work) {
  Moments rates;
  for (unsigned i = 0; i <= repetitions; ++i) {
    session.truncate(0);
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (i > 0) rates.add(static_cast<double>(n) / spent.count());
  }
  return {rates.mean, rates.error()};
}

class Sweep {
 public:
  Sweep(SweepOptions options, const Model& base)
      : options_(std::move(options)), base_(base), text_(perplexity_tokens(base, read_file(options_.text))) {
    const TextWindows windows(text_.size(), options_.windows);
    text_.resize(windows[windows.size() - 1].end);
    fs::create_directories(options_.directory);
    machine_.cpu = cpu_name();
    machine_.isa = active_kernels()->isa;
    machine_.threads = options_.model.session.threads != 0 ? options_.model.session.threads : usable_cores();
    machine_.available = session_memory(base, {}).available;
    machine_.text = fs::path(options_.text).filename().string() + ", " + std::to_string(windows.size()) +
                    " windows of " + std::to_string(options_.windows.window) + " tokens";
    options_.model.session.n_ctx = static_cast<std::uint32_t>(
        std::max({std::size_t{options_.windows.window}, options_.prompt, options_.decode}));
  }

  /// The base first: its predictions are what the others are compared with.
  void run() {
    require_names();
    add(fs::path(base_.file().path()).stem().string(), base_);
    for (const std::string& file : options_.files) {
      const std::string name = fs::path(file).stem().string();
      try {
        ModelOptions wanted = options_.model;
        wanted.model = file;
        const auto model = load_model(wanted);
        if (model->config().n_vocab != base_.config().n_vocab ||
            fingerprint(model->vocabulary()) != fingerprint(base_.vocabulary()))
          throw Error(file, "cannot be compared: its vocabulary is not the base's");
        add(name, *model);
      } catch (const Error& error) {  // the others go on
        std::cerr << "cria: error: " << error.what() << '\n';
        SweepRow& row = rows_.emplace_back();
        row.name = name;
        row.error = error.what();
        failed_ = true;
      }
    }
  }

  void report() {
    machine_.read_gbytes = measure_roofline(*active_kernels(), machine_.threads).read_gbytes;
    const std::string markdown = sweep_markdown(rows_, machine_), json = sweep_json(rows_, machine_);
    write_file(path("sweep.md"), markdown);
    write_file(path("sweep.csv"), sweep_csv(rows_));
    write_file(path("sweep.json"), json);
    write_file(path("perplexity.svg"), sweep_perplexity_svg(rows_, machine_));
    write_file(path("speed.svg"), sweep_speed_svg(rows_, machine_));
    write_stdout(options_.json ? json : markdown);
    flush_stdout();
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  [[nodiscard]] std::string path(const std::string& file) const {
    return (fs::path(options_.directory) / file).string();
  }

  /// Files in the directory are named after models.
  void require_names() const {
    std::set<std::string> names{fs::path(base_.file().path()).stem().string()};
    for (const std::string& file : options_.files) {
      if (!names.insert(fs::path(file).stem().string()).second)
        throw Error(file, "two models of one name: expected different file names");
    }
  }

  /// What a row depends on: a row of another sweep in the same directory is not taken for one of this.
  [[nodiscard]] std::string identity(const Model& model) const {
    Hash hash;
    hash.add_number(fingerprint(model));
    hash.add_number(fingerprint(base_));
    hash.add(text_.data(), text_.size() * sizeof(TokenId));
    for (const std::uint64_t number : {std::uint64_t{options_.windows.window}, std::uint64_t{options_.prompt},
                                       std::uint64_t{options_.decode}, std::uint64_t{machine_.threads}})
      hash.add_number(number);
    hash.add(machine_.isa.data(), machine_.isa.size());
    return std::to_string(hash.value());
  }

  /// From the directory, if it was measured before, else measured now.
  void add(const std::string& name, const Model& model) {
    const std::string file = path(name + ".row.json");
    const std::string id = identity(model);
    if (fs::exists(file) && fs::exists(path(kBaseLogits))) {
      const auto object = nlohmann::ordered_json::parse(read_file(file), nullptr, false);
      if (object.is_object() && object.value("identity", "") == id) {
        rows_.push_back(sweep_row(object.at("row")));
        return;
      }
    }
    std::cerr << name << ": " << std::flush;
    SweepRow row = describe(name, model);
    measure_quality(row, model);
    std::cerr << "perplexity " << fixed(row.ppl.value, 4) << std::flush;
    measure_speed(row, model);
    std::cerr << ", prompt " << fixed(row.prompt.value, 1) << ", decode " << fixed(row.decode.value, 1)
              << " tokens/s\n";
    write_file(file, nlohmann::ordered_json{{"identity", id}, {"row", to_json(row)}}.dump(1) + "\n");
    rows_.push_back(std::move(row));
  }

  void measure_quality(SweepRow& row, const Model& model) {
    const std::atomic<bool>& interrupted = catch_interrupts();
    const auto session = open_session(model, options_.model);
    const std::string base_logits = path(kBaseLogits);
    const std::string state = path(row.name + ".state");
    Perplexity perplexity(*session, text_, options_.windows);
    std::optional<LogProbsWriter> writer;
    std::optional<LogProbsReader> reader;
    if (&model == &base_) {
      writer.emplace(base_logits, model, text_, options_.windows);
      perplexity.write_to(*writer);
    } else {
      reader.emplace(base_logits, model);
      perplexity.compare_with(*reader);
      if (fs::exists(state)) perplexity.load(state);
    }
    while (perplexity.next([&](std::size_t) { return !interrupted; })) {
      if (reader) perplexity.save(state);
    }
    if (interrupted) throw Interrupted();
    if (writer) writer->finish();
    const PerplexityResult result = perplexity.result();
    row.ppl = {result.ppl, result.ppl_stderr};
    if (!result.divergence) return;
    row.ratio = result.divergence->ratio;
    row.kld = result.divergence->kld;
    row.same_top = result.divergence->same_top;
    fs::remove(state);
  }

  void measure_speed(SweepRow& row, const Model& model) {
    const auto session = open_session(model, options_.model);
    std::vector<TokenId> tokens = text_;
    while (tokens.size() < std::max(options_.prompt, options_.decode))
      tokens.insert(tokens.end(), text_.begin(), text_.end());
    row.prompt = rate(options_.repetitions, options_.prompt, *session,
                      [&] { session->eval(std::span(tokens).first(options_.prompt)); });
    row.decode = rate(options_.repetitions, options_.decode, *session, [&] {
      for (std::size_t i = 0; i < options_.decode; ++i) session->eval(std::span(tokens).subspan(i, 1));
    });
  }

  SweepOptions options_;
  const Model& base_;
  std::vector<TokenId> text_;
  SweepMachine machine_;
  std::vector<SweepRow> rows_;
  bool failed_ = false;
};

int run(SweepOptions options) {
  const auto base = load_model(options.model);
  Sweep sweep(std::move(options), *base);
  sweep.run();
  sweep.report();
  return sweep.failed() ? 1 : 0;
}

}  // namespace

void add_sweep(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("sweep", "Compare quantizations of a model: size, perplexity, divergence, speed");
  auto options = std::make_shared<SweepOptions>();
  command->add_option("files", options->files, "the quantizations (GGUF)")->required();
  command->add_option("-f,--file", options->text, "the text (-: stdin)")->type_name("FILE")->required();
  command
      ->add_option(
          "-o,--output", options->directory,
          "directory for the table (sweep.md, .csv, .json), the plots (perplexity.svg, speed.svg) and "
          "what is needed to go on after an interruption")
      ->type_name("DIR")
      ->required();
  add_model_options(*command, options->model);
  command->get_option("--model")->description("the model compared with, mostly F16 (GGUF)")->required();
  command->remove_option(command->get_option("--ctx"));
  command->remove_option(command->get_option("--profile"));
  command->add_option("-c,--ctx", options->windows.window, "tokens of a window")
      ->type_name("N")
      ->check(range(3, 1 << 24))
      ->capture_default_str();
  command->add_option("--chunks", options->windows.max_windows, "stop after so many windows; 0: all")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("-p,--prompt", options->prompt, "tokens of the prompt that is timed")
      ->type_name("N")
      ->check(range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("-n,--decode", options->decode, "tokens decoded that are timed")
      ->type_name("N")
      ->check(range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("-r,--repetitions", options->repetitions, "runs timed, after one that is not")
      ->type_name("N")
      ->check(range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "the table as JSON on stdout, instead of Markdown");
  command->footer(
      "Example:\n  cria sweep -m model-F16.gguf -f wiki.test.raw -o sweep model-Q8_0.gguf model-Q4_K_M.gguf");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
