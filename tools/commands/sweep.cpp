#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/execute/machine.h"
#include "engine/model_parts.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/commands/sweep_report.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/report/roofline.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"
#include "tools/terminal/wrap.h"

namespace cria::tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* kRow = ".row.json";

void write_file(const std::string& path, const std::string& content) {
  OutputFile file(path);
  file.write(content);
  file.finish();
}

/// The names of files in the directory.
std::string model_name(const Model& model) { return fs::path(model.file().path()).stem().string(); }

/// Up to the end of the last window.
std::vector<TokenId> evaluated_text(const SweepOptions& options, const Model& base) {
  std::vector<TokenId> text = perplexity_tokens(base, read_file(options.text));
  const TextWindows windows(text.size(), options.windows);
  text.resize(windows[windows.size() - 1].end);
  return text;
}

/// A file to make of the base: a mix, or types under a budget.
struct Recipe {
  const Mix* mix;  ///< null: by the budget
  Budget budget;
  [[nodiscard]] std::string text() const {
    return mix != nullptr ? std::string(mix->name) : budget.text();
  }
};

class Sweep {
 public:
  Sweep(SweepOptions options, const Model& base)
      : options_(std::move(options)),
        base_(base),
        measurer_(options_, base, evaluated_text(options_, base)) {
    for (const std::string& type : options_.types) {  // a mix may have two names
      const Recipe recipe{find_mix(type), {}};
      if (std::ranges::find(recipes_, recipe.mix, &Recipe::mix) == recipes_.end())
        recipes_.push_back(recipe);
    }
    for (const std::string& size : options_.sizes) recipes_.push_back({nullptr, {size, 0}});
    fs::create_directories(options_.directory);
    machine_.cpu = cpu_name();
    machine_.isa = kernels_in_use().isa;
    machine_.threads =
        options_.model.session.threads != 0 ? options_.model.session.threads : usable_cores();
    machine_.available = session_memory(base, {}).available;
    machine_.model = model_name(base);
    machine_.text =
        fs::path(options_.text).filename().string() + ", " +
        counted(TextWindows(measurer_.text().size(), options_.windows).size(), "window") + " of " +
        counted(options_.windows.window, "token");
    options_.model.session.n_ctx = static_cast<std::uint32_t>(
        std::max({std::size_t{options_.windows.window}, options_.prompt, options_.decode}));
  }

  /// The base first: its predictions are what the others are compared with.
  void run() {
    require_names();
    // Without overrides of the base's keys.
    if (!recipes_.empty()) job_.emplace(base_.file().path(), options_.sources, machine_.threads);
    for (const Recipe& recipe : recipes_)
      if (recipe.mix != nullptr)
        static_cast<void>(plan_of(recipe));  // reports impossible types at once
    add(model_name(base_), base_);
    for (const std::string& file : options_.files)
      attempt(fs::path(file).stem().string(),
              [&](const std::string& name) { add(name, *load(file)); });
    for (const Recipe& recipe : recipes_)
      attempt(name_of(recipe), [&](const std::string& name) { add_quantized(name, recipe); });
  }

  void report() {
    machine_.read_gbytes = read_gbytes(kernels_in_use(), machine_.threads, {});
    const std::string markdown = sweep_markdown(rows_, machine_),
                      json = sweep_json(rows_, machine_);
    write_file(options_.path("sweep.md"), markdown);
    write_file(options_.path("sweep.csv"), sweep_csv(rows_));
    write_file(options_.path("sweep.json"), json);
    write_file(options_.path("perplexity.svg"), sweep_perplexity_svg(rows_, machine_));
    write_file(options_.path("speed.svg"), sweep_speed_svg(rows_, machine_));
    options_.json ? write_stdout(json)
                  : write_text(sweep_text(rows_, machine_, terminal_columns(stdout)));
    flush_stdout();
    std::error_code ignored;  // the rows stay: the sweep can be made again with more models
    if (!options_.keep) fs::remove(measurer_.base_logits(), ignored);
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  /// Files in the directory are named after models.
  void require_names() const {
    std::set<std::string> names{model_name(base_)};
    const auto require_new = [&](const std::string& name, const std::string& file) {
      if (!names.insert(name).second)
        throw Error(
            file,
            "another model of this sweep has this name too, and files are named after models: "
            "rename one of them");
    };
    for (const std::string& file : options_.files)
      require_new(fs::path(file).stem().string(), file);
    for (const Recipe& recipe : recipes_) require_new(name_of(recipe), name_of(recipe));
  }
  [[nodiscard]] std::string name_of(const Recipe& recipe) const {
    return model_name(base_) + "-" + recipe.text();
  }

  /// A failed model becomes a row with its error; the others continue.
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

  /// A row that was measured needs no file: what is made of the base follows from the base and the
  /// type.
  void add_quantized(const std::string& name, const Recipe& recipe) {
    const std::string command = command_of(name, recipe);
    Hash hash;
    hash.add_number(weights_fingerprint(base_));
    hash.add(command.data(), command.size());
    std::vector<std::string> inputs = options_.sources.calibrate;
    inputs.push_back(options_.sources.imatrix);
    for (const std::string& input : inputs) {
      const std::string bytes = input.empty() || input == "self" ? input : read_file(input);
      hash.add(bytes.data(), bytes.size());
    }
    const std::string id = identity(hash.value());
    if (take_measured(name, id)) return;
    // Temporary models have other names: "NAME.gguf" may be a file of the user.
    const std::string file = options_.path(name + (options_.keep ? ".gguf" : ".part.gguf"));
    const TemporaryFile remove_it(options_.keep ? "" : file);
    const QuantizePlan plan = plan_of(recipe);
    GgufWriter writer(file, job_->file().alignment());
    job_->declare(writer, plan);
    job_->write(plan, writer, false, false, {});
    const auto model = load(file);
    measure(name, *model, id, command);
  }

  /// The command that makes the file. Names are quoted for a shell.
  [[nodiscard]] std::string command_of(const std::string& name, const Recipe& recipe) const {
    const QuantizeSources& sources = options_.sources;
    std::string text = "cria quantize " + shell_word(base_.file().path()) + " " +
                       shell_word(name + ".gguf") + (recipe.mix != nullptr ? " " : " --size ") +
                       shell_word(recipe.text());
    if (recipe.mix == nullptr && sources.types != "K") text += " --types " + sources.types;
    if (!sources.imatrix.empty()) text += " --imatrix " + shell_word(sources.imatrix);
    for (const std::string& path : sources.calibrate) text += " --calibrate " + shell_word(path);
    if (sources.calibrate_tokens != 0)
      text += " --calibrate-tokens " + std::to_string(sources.calibrate_tokens);
    return text + (options_.allow_requantize ? " --allow-requantize" : "");
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

  QuantizePlan plan_of(const Recipe& recipe) {
    QuantizeOptions options;
    options.mix = recipe.mix;
    options.weighted = job_->weighted();
    options.allow_requantize = options_.allow_requantize;
    return recipe.mix != nullptr ? plan_quantize(job_->file(), options)
                                 : job_->plan(std::move(options), recipe.budget);
  }

  /// Identifies the inputs of a row, so that rows of another sweep in the directory are not reused.
  [[nodiscard]] std::string identity(std::uint64_t model) const {
    Hash hash;
    hash.add_number(model);
    hash.add_number(computed(base_));
    hash.add(measurer_.text().data(), measurer_.text().size() * sizeof(TokenId));
    const SessionOptions& session = options_.model.session;
    for (const std::uint64_t number :
         {std::uint64_t{options_.windows.window}, std::uint64_t{options_.prompt},
          std::uint64_t{options_.decode}, std::uint64_t{options_.repetitions},
          std::uint64_t{machine_.threads}, std::uint64_t{session.threads_prefill},
          std::uint64_t{session.n_batch}})
      hash.add_number(number);
    for (const std::string& name :
         {machine_.isa, std::string(kv_name(options_.model.session.kv_type)), machine_.cpu,
          std::string(CRIA_VERSION)})
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
    const std::string file = options_.path(name + kRow);
    if (!fs::exists(file)) return false;
    const auto object = try_json(read_file(file));
    if (!object.is_object() || object.value("identity", "") != id) return false;
    rows_.push_back(sweep_row(object.at("row")));
    return true;
  }

  void measure(const std::string& name, const Model& model, const std::string& id,
               const std::string& command = "") {
    // The row of the base shows that predictions in the directory were made with it.
    if (&model == &base_) fs::remove(options_.path(name + kRow));
    SweepRow row = measurer_.measure(name, model);
    row.command = command;
    print_line(name + ": perplexity " + fixed(row.ppl.value, 4) + ", prompt " +
               fixed(row.prompt.value, 1) + ", decode " + fixed(row.decode.value, 1) + " tokens/s");
    write_file(options_.path(name + kRow), json_text({{"identity", id}, {"row", to_json(row)}}));
    rows_.push_back(std::move(row));
  }

  SweepOptions options_;
  const Model& base_;
  const SweepMeasurer measurer_;
  std::vector<Recipe> recipes_;
  std::optional<QuantizeJob> job_;  // makes files by recipes
  SweepMachine machine_;
  std::vector<SweepRow> rows_;
  bool failed_ = false;
};

}  // namespace

int run_sweep(SweepOptions options, const Model& base) {
  Sweep sweep(std::move(options), base);
  sweep.run();
  sweep.report();
  return sweep.failed() ? 1 : 0;
}

namespace {

int run(SweepOptions options) {
  if (options.files.empty() && options.types.empty() && options.sizes.empty())
    throw UsageError("quantizations to compare are missing: files, --types or --sizes");
  for (const std::string& type : options.types) {
    if (find_mix(type) == nullptr) throw UsageError("--types", unknown_mix_text(type));
  }
  for (const std::string& size : options.sizes) static_cast<void>(parse_size("--sizes", size));
  const auto base = load_model(options.model);
  return run_sweep(std::move(options), *base);
}

}  // namespace

void add_sweep(Program& program) {
  Command& command =
      program.add("sweep", "Compare quantizations of a model: size, perplexity, divergence, speed");
  auto options = std::make_shared<SweepOptions>();
  SweepOptions& o = *options;
  command.add({
      {"files", "", "existing quantizations of the model (GGUF)", into::words(o.files)},
      {"--types", "TYPE,TYPE...",
       "quantizations to make of the model and measure (see cria quantize --mixes)",
       into::words_or_list(o.types)},
      {"--sizes",
       "SIZE,SIZE...",
       "files of at most these sizes to make of the model, with the type of each tensor chosen "
       "(see cria quantize --size), and measure",
       into::words_or_list(o.sizes),
       {.needs = "--imatrix,--calibrate"}},
      {"--size-types",
       "K|all|TYPE,TYPE...",
       "types that --sizes chooses from",
       into::text(o.sources.types),
       {.needs = "--sizes"}},
      {"--allow-requantize", "", "accept a quantized model to make others of, which costs quality",
       into::flag(o.allow_requantize)},
      {"--keep", "",
       "keep the models made by --types and --sizes (MODEL-TYPE.gguf; existing ones are replaced) "
       "and the base model's predictions (large)",
       into::flag(o.keep)},
      {"-f,--file",
       "FILE",
       "the text to measure with (-: stdin)",
       into::once(into::text(o.text)),
       {.required = true}},
      {"-o,--output",
       "DIR",
       "directory for the table (sweep.md, .csv, .json), the plots (perplexity.svg, speed.svg) and "
       "what is needed to continue after an interruption",
       into::text(o.directory),
       {.required = true}},
  });
  command.add(source_flags(o.sources));
  command.add(without(model_flags(o.model), "--ctx,--profile"));
  command.add({
      {"-m,--model",
       "FILE",
       "the base model to compare with, usually F16 (GGUF)",
       into::text(o.model.model),
       {.required = true}},
      {"-c,--window,--ctx", "N", "tokens per window", into::number(o.windows.window, 3, 1 << 24)},
      {"--chunks", "N", "stop after N windows; 0: all",
       into::number(o.windows.max_windows, 0, 1 << 30)},
      {"-p,--prompt", "N", "length of the timed prompt, in tokens",
       into::number(o.prompt, 1, 1 << 20)},
      {"-n,--decode", "N", "number of timed tokens in decoding",
       into::number(o.decode, 1, 1 << 20)},
      {"-r,--repetitions", "N", "timed runs, after one warm-up run",
       into::number(o.repetitions, 1, 1000)},
      {"--json", "", "print the table as JSON to stdout", into::flag(o.json)},
  });
  command.notes =
      "Examples:\n"
      "  cria sweep -m model-F16.gguf -f wiki.test.raw -o sweep --types Q8_0,Q4_K_M\n"
      "  cria sweep -m model-F16.gguf -f wiki.test.raw -o sweep --sizes 4GiB,5GiB --calibrate "
      "text.txt\n"
      "  cria sweep -m model-F16.gguf -f wiki.test.raw -o sweep model-Q8_0.gguf model-Q4_K_M.gguf";
  command.run = [options] { return run(*options); };
}

}  // namespace cria::tools
