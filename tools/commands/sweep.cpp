// `cria sweep`: which quantization of a model to run on this machine. Figures of every file, a table, plots.
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/evaluate/perplexity.h"
#include "engine/execute/cores.h"
#include "engine/execute/kernels_in_use.h"
#include "engine/fingerprint.h"
#include "engine/quantize/quantize.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/input.h"
#include "tools/options/model.h"
#include "tools/options/types.h"
#include "tools/report/json.h"
#include "tools/report/machine.h"
#include "tools/report/roofline.h"
#include "tools/report/sweep_report.h"
#include "tools/terminal/interrupt.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/output_file.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/width.h"

namespace cria::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char *kBaseLogits = "base.logits", *kRow = ".row.json";

struct SweepOptions {
  ModelOptions model;  ///< the base
  std::vector<std::string> files, types;
  std::string text, directory, imatrix;
  PerplexityOptions windows{.window = 512, .stride = 0, .max_windows = 40};
  std::size_t prompt = 512, decode = 64;
  unsigned repetitions = 3;
  bool allow_requantize = false, keep = false, json = false;
};

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

/// Tokens per second of work(on_token) on n tokens, after one run that is not counted. Shows progress, and
/// stops at Ctrl-C.
template <class Work>
Estimate rate(const std::string& name, unsigned repetitions, std::size_t n, Session& session, Work&& work) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  Progress progress(name, "tokens", n * (repetitions + 1));
  MeanVariance rates;
  for (unsigned i = 0; i <= repetitions; ++i) {
    const auto show = [&](std::size_t done) {
      if (interrupted) throw Interrupted();
      progress.update(i * n + done, "speed");
    };
    session.truncate(0);
    const auto start = std::chrono::steady_clock::now();
    work(show);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (i > 0) rates.add(static_cast<double>(n) / spent.count());
    show(n);
  }
  return {rates.mean, rates.error()};
}

class Sweep {
 public:
  Sweep(SweepOptions options, const Model& base)
      : options_(std::move(options)), base_(base), text_(perplexity_tokens(base, read_file(options_.text))) {
    const TextWindows windows(text_.size(), options_.windows);
    text_.resize(windows[windows.size() - 1].end);
    for (const std::string& type : options_.types) {  // a mix may have two names
      const Mix* const mix = find_mix(type);
      if (std::ranges::find(mixes_, mix) == mixes_.end()) mixes_.push_back(mix);
    }
    if (!options_.imatrix.empty()) {
      importance_bytes_ = read_file(options_.imatrix);
      importance_ = ImportanceMatrix::read(options_.imatrix);
      require_importance_of(base.file(), *importance_, options_.imatrix);
    }
    fs::create_directories(options_.directory);
    machine_.cpu = cpu_name();
    machine_.isa = kernels_in_use().isa;
    machine_.threads = options_.model.session.threads != 0 ? options_.model.session.threads : usable_cores();
    machine_.available = session_memory(base, {}).available;
    machine_.model = fs::path(base.file().path()).stem().string();
    machine_.text = fs::path(options_.text).filename().string() + ", " + counted(windows.size(), "window") +
                    " of " + counted(options_.windows.window, "token");
    options_.model.session.n_ctx = static_cast<std::uint32_t>(
        std::max({std::size_t{options_.windows.window}, options_.prompt, options_.decode}));
  }

  /// The base first: its predictions are what the others are compared with.
  void run() {
    require_names();
    for (const Mix* mix : mixes_)
      static_cast<void>(plan_of(base_.file(), *mix));  // what cannot be made is said at once
    add(fs::path(base_.file().path()).stem().string(), base_);
    for (const std::string& file : options_.files)
      attempt(fs::path(file).stem().string(), [&](const std::string& name) { add(name, *load(file)); });
    for (const Mix* mix : mixes_)
      attempt(name_of(*mix), [&](const std::string& name) { add_quantized(name, *mix); });
  }

  void report() {
    machine_.read_gbytes = read_gbytes(kernels_in_use(), machine_.threads, {});
    const std::string markdown = sweep_markdown(rows_, machine_), json = sweep_json(rows_, machine_);
    write_file(path("sweep.md"), markdown);
    write_file(path("sweep.csv"), sweep_csv(rows_));
    write_file(path("sweep.json"), json);
    write_file(path("perplexity.svg"), sweep_perplexity_svg(rows_, machine_));
    write_file(path("speed.svg"), sweep_speed_svg(rows_, machine_));
    options_.json ? write_stdout(json) : write_text(sweep_text(rows_, machine_, terminal_columns(stdout)));
    flush_stdout();
    std::error_code ignored;  // the rows stay: the sweep can be made again with more models
    if (!options_.keep) fs::remove(path(kBaseLogits), ignored);
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  [[nodiscard]] std::string path(const std::string& file) const {
    return (fs::path(options_.directory) / file).string();
  }

  /// Files in the directory are named after models.
  void require_names() const {
    std::set<std::string> names{fs::path(base_.file().path()).stem().string()};
    const auto require_new = [&](const std::string& name, const std::string& file) {
      if (!names.insert(name).second)
        throw Error(file,
                    "another model of this sweep has this name too, and files are named after models: "
                    "rename one of them");
    };
    for (const std::string& file : options_.files) require_new(fs::path(file).stem().string(), file);
    for (const Mix* mix : mixes_) require_new(name_of(*mix), name_of(*mix));
  }
  [[nodiscard]] std::string name_of(const Mix& mix) const {
    return fs::path(base_.file().path()).stem().string() + "-" + std::string(mix.name);
  }

  /// A model that fails is a row that says so; the others go on.
  template <class Work>
  void attempt(const std::string& name, Work&& work) {
    try {
      work(name);
    } catch (const Error& error) {
      print_error(error.what());
      SweepRow& row = rows_.emplace_back();
      row.name = name;
      row.error = error.what();
      failed_ = true;
    }
  }

  [[nodiscard]] std::shared_ptr<const Model> load(const std::string& file) const {
    ModelOptions wanted = options_.model;
    wanted.model = file;
    auto model = load_model(wanted);
    if (model->config().n_vocab != base_.config().n_vocab ||
        vocabulary_fingerprint(model->vocabulary()) != vocabulary_fingerprint(base_.vocabulary()))
      throw Error(file, "cannot be compared: its vocabulary is not the base's");
    return model;
  }

  /// A row that was measured needs no file: what is made of the base follows from the base and the type.
  void add_quantized(const std::string& name, const Mix& mix) {
    Hash hash;
    hash.add_number(weights_fingerprint(base_));
    hash.add(mix.name.data(), mix.name.size());
    hash.add(importance_bytes_.data(), importance_bytes_.size());
    const std::string id = identity(hash.value());
    if (take_measured(name, id)) return;
    // What is removed again has a name of its own: "NAME.gguf" may be a file of the user's.
    const std::string file = path(name + (options_.keep ? ".gguf" : ".part.gguf"));
    const TemporaryFile remove_it(options_.keep ? "" : file);
    make(mix, file);
    const auto model = load(file);
    measure(name, *model, id);
  }

  /// Removes a file at the end of its life, whatever happens.
  class TemporaryFile {
   public:
    explicit TemporaryFile(std::string file) : file_(std::move(file)) {}
    ~TemporaryFile() {
      std::error_code ignored;
      if (!file_.empty()) fs::remove(file_, ignored);
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

   private:
    std::string file_;
  };

  [[nodiscard]] QuantizePlan plan_of(const GgufFile& base, const Mix& mix) const {
    QuantizeOptions options;
    options.mix = &mix;
    options.weighted = importance_.has_value();
    options.allow_requantize = options_.allow_requantize;
    return plan_quantize(base, options);
  }

  void make(const Mix& mix, const std::string& file) const {
    const std::atomic<bool>& interrupted = catch_interrupts();
    const GgufFile base = GgufFile::open(base_.file().path());  // with its own keys, not those of options
    const QuantizePlan plan = plan_of(base, mix);
    GgufWriter writer(file, base.alignment());
    declare(writer, base, plan);
    if (importance_) declare_importance(writer, *importance_, fs::path(options_.imatrix).filename().string());
    Progress progress("quantizing", "bytes", writer.file_bytes());
    QuantizeRun run;
    run.threads = machine_.threads;
    run.importance = importance_ ? &*importance_ : nullptr;
    run.on_progress = [&](std::uint64_t bytes) {
      progress.update(bytes, mix.name);
      return !interrupted;
    };
    if (!quantize(base, plan, writer, run)) throw Interrupted();
  }

  /// What a row depends on: a row of another sweep in the same directory is not taken for one of this.
  [[nodiscard]] std::string identity(std::uint64_t model) const {
    Hash hash;
    hash.add_number(model);
    hash.add_number(computed(base_));
    hash.add(text_.data(), text_.size() * sizeof(TokenId));
    const SessionOptions& session = options_.model.session;
    for (const std::uint64_t number :
         {std::uint64_t{options_.windows.window}, std::uint64_t{options_.prompt},
          std::uint64_t{options_.decode}, std::uint64_t{options_.repetitions},
          std::uint64_t{machine_.threads}, std::uint64_t{session.threads_prefill},
          std::uint64_t{session.n_batch}})
      hash.add_number(number);
    for (const std::string& name :
         {machine_.isa, options_.model.kv_type, machine_.cpu, std::string(CRIA_VERSION)})
      hash.add(name.data(), name.size());
    return std::to_string(hash.value());
  }

  /// The weights, and what the options make of them.
  [[nodiscard]] std::uint64_t computed(const Model& model) const {
    return computation_fingerprint(model, model.graph(), options_.model.session.n_ctx);
  }

  void add(const std::string& name, const Model& model) {
    const std::string id = identity(computed(model));
    if (!take_measured(name, id)) measure(name, model, id);
  }

  /// The row from the directory, if it was measured before.
  bool take_measured(const std::string& name, const std::string& id) {
    const std::string file = path(name + kRow);
    if (!fs::exists(file)) return false;
    const auto object = nlohmann::ordered_json::parse(read_file(file), nullptr, false);
    if (!object.is_object() || object.value("identity", "") != id) return false;
    rows_.push_back(sweep_row(object.at("row")));
    return true;
  }

  void measure(const std::string& name, const Model& model, const std::string& id) {
    SweepRow row = describe(name, model);
    // A row of the base says that the predictions beside it, if there are any, were made with it.
    if (&model == &base_)
      fs::remove(path(name + kRow));
    else if (!has_base_logits())
      write_base_logits();
    measure_quality(row, model);
    measure_speed(row, model);
    print_line(name + ": perplexity " + fixed(row.ppl.value, 4) + ", prompt " + fixed(row.prompt.value, 1) +
               ", decode " + fixed(row.decode.value, 1) + " tokens/s");
    write_file(path(name + kRow), json_text({{"identity", id}, {"row", to_json(row)}}));
    rows_.push_back(std::move(row));
  }

  /// Not those of another sweep in the same directory, of another text or base.
  [[nodiscard]] bool has_base_logits() const {
    if (!fs::exists(path(kBaseLogits))) return false;
    try {
      const LogProbsReader reader(path(kBaseLogits), base_);
      return reader.options().window == options_.windows.window &&
             reader.fingerprint() == LogProbsReader::fingerprint(base_, text_);
    } catch (const Error&) {  // of another vocabulary, say
      return false;
    }
  }

  /// The base's row is known from an earlier sweep, its predictions are gone.
  void write_base_logits() {
    SweepRow row;
    row.name = machine_.model;
    measure_quality(row, base_);
  }

  /// Evaluates the windows that are left, with progress.
  void evaluate(Perplexity& perplexity, const std::string& name, const std::string& state) const {
    const std::atomic<bool>& interrupted = catch_interrupts();
    // The last token of a window is predicted, not evaluated.
    const std::size_t per_window = options_.windows.window - 1, before = perplexity.done();
    Progress progress(name, "tokens", (perplexity.windows() - before) * per_window);
    const auto on_batch = [&](std::size_t evaluated) {
      progress.update((perplexity.done() - before) * per_window + evaluated, "perplexity");
      return !interrupted;
    };
    while (perplexity.next(on_batch))
      if (!state.empty()) perplexity.save(state);
    if (!interrupted) return;
    progress.wipe();
    print_line(name + ": stopped after " + std::to_string(perplexity.done()) + " of " +
               counted(perplexity.windows(), "window") + "; the same command goes on with what is in " +
               options_.directory);
    throw Interrupted();
  }

  /// Goes on from a state of this measurement. That of another sweep in the same directory is none.
  static void load(Perplexity& perplexity, const std::string& state) {
    if (!fs::exists(state)) return;
    try {
      perplexity.load(state);
    } catch (const Error&) {
      fs::remove(state);
    }
  }

  void measure_quality(SweepRow& row, const Model& model) {
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
      load(perplexity, state);
    }
    evaluate(perplexity, row.name, reader ? state : "");
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
    row.prompt = rate(row.name, options_.repetitions, options_.prompt, *session,
                      [&](const auto&) { session->eval(std::span(tokens).first(options_.prompt)); });
    row.decode = rate(row.name, options_.repetitions, options_.decode, *session, [&](const auto& on_token) {
      for (std::size_t i = 0; i < options_.decode; ++i) {
        session->eval(std::span(tokens).subspan(i, 1));
        on_token(i + 1);
      }
    });
  }

  SweepOptions options_;
  const Model& base_;
  std::vector<TokenId> text_;
  std::vector<const Mix*> mixes_;
  std::string importance_bytes_;
  std::optional<ImportanceMatrix> importance_;
  SweepMachine machine_;
  std::vector<SweepRow> rows_;
  bool failed_ = false;
};

int run(SweepOptions options) {
  if (options.files.empty() && options.types.empty())
    throw CLI::ValidationError("quantizations to compare are missing: files, or --types");
  for (const std::string& type : options.types) {
    if (find_mix(type) == nullptr) throw CLI::ValidationError("--types", unknown_mix_text(type));
  }
  const auto base = load_model(options.model);
  Sweep sweep(std::move(options), *base);
  sweep.run();
  sweep.report();
  return sweep.failed() ? 1 : 0;
}

/// How much of the text is evaluated, and what is timed.
void add_measuring_options(CLI::App& command, SweepOptions& options) {
  command.add_option(kWindowNames, options.windows.window, "tokens per window")
      ->type_name("N")
      ->check(range(3, 1 << 24))
      ->capture_default_str();
  command.add_option("--chunks", options.windows.max_windows, "stop after N windows; 0: all")
      ->type_name("N")
      ->capture_default_str();
  command.add_option("-p,--prompt", options.prompt, "length of the timed prompt, in tokens")
      ->type_name("N")
      ->check(range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("-n,--decode", options.decode, "number of timed tokens in decoding")
      ->type_name("N")
      ->check(range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("-r,--repetitions", options.repetitions, "timed runs, after one warm-up run")
      ->type_name("N")
      ->check(range(1, 1000))
      ->capture_default_str();
}

}  // namespace

void add_sweep(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("sweep", "Compare quantizations of a model: size, perplexity, divergence, speed");
  auto options = std::make_shared<SweepOptions>();
  command->add_option("files", options->files, "existing quantizations of the model (GGUF)");
  command
      ->add_option("--types", options->types,
                   "quantizations to make of the model and measure (see cria quantize --mixes)")
      ->type_name("TYPE,TYPE...")
      ->delimiter(',');
  command->add_option("--imatrix", options->imatrix, "importance matrix for --types")->type_name("FILE");
  command->add_flag("--allow-requantize", options->allow_requantize,
                    "accept a quantized model for --types, which costs quality");
  command->add_flag("--keep", options->keep,
                    "keep the models made by --types (MODEL-TYPE.gguf; existing ones are replaced) and the "
                    "base model's predictions (large)");
  command->add_option("-f,--file", options->text, "the text to measure with (-: stdin)")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("-o,--output", options->directory,
                   "directory for the table (sweep.md, .csv, .json), the plots (perplexity.svg, speed.svg) "
                   "and what is needed to continue after an interruption")
      ->type_name("DIR")
      ->required();
  add_model_options(*command, options->model);
  command->get_option("--model")
      ->description("the base model to compare with, usually F16 (GGUF)")
      ->required();
  command->remove_option(command->get_option("--ctx"));
  command->remove_option(command->get_option("--profile"));
  add_measuring_options(*command, *options);
  command->add_flag("--json", options->json, "print the table as JSON to stdout");
  command->footer(
      "Examples:\n"
      "  cria sweep -m model-F16.gguf -f wiki.test.raw -o sweep --types Q8_0,Q4_K_M\n"
      "  cria sweep -m model-F16.gguf -f wiki.test.raw -o sweep model-Q8_0.gguf model-Q4_K_M.gguf");
  on_run(command, [options] { return run(*options); });
}

}  // namespace cria::tools
