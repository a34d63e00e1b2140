// `cria bench`: tokens per second of prompts and of decoding, beside the machine's limits.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "engine/distribute/default_threads.h"
#include "engine/distribute/leader.h"
#include "engine/execute/machine.h"
#include "engine/model_parts.h"
#include "engine/session.h"
#include "model/plural.h"
#include "tools/commands/bench_passes.h"
#include "tools/commands/commands.h"
#include "tools/commands/tune.h"
#include "tools/options/command.h"
#include "tools/options/find_model.h"
#include "tools/options/model.h"
#include "tools/options/ranks.h"
#include "tools/options/report_format.h"
#include "tools/options/settings.h"
#include "tools/options/synthetic_file.h"
#include "tools/report/bench_report.h"
#include "tools/report/json.h"
#include "tools/report/repetitions.h"
#include "tools/report/roofline.h"
#include "tools/report/tuned.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/standard_output.h"

namespace cria::tools {
namespace {

struct BenchOptions {
  std::vector<std::string> models;     ///< files
  std::vector<std::string> synthetic;  ///< SHAPE:TYPE
  std::string write;                   ///< keep the synthetic file here
  std::vector<std::size_t> prompt{512}, decode{128}, depth{0};
  std::vector<unsigned> threads;
  bool default_threads = false;  ///< threads: the default here; other ranks have their own
  unsigned repetitions = 5, batch = 512, threads_prefill = 0;
  std::string kv_type = "f16";
  std::vector<std::size_t> verify, parallel, speculate;  ///< tokens, sequences, per cent
  bool shared_prompt = false;
  BenchFormat format = BenchFormat::Table;
  bool roofline = false, no_mmap = false;
  bool tune = false, remember = false;
  RankOptions ranks;
};

/// What one token costs, from the weights that the graph multiplies.
struct TokenCost {
  std::uint64_t decode_bytes = 0, prompt_macs = 0, decode_macs = 0;
  std::string dtype;  ///< the type that most bytes have
};

TokenCost token_cost(const Model& model) {
  TokenCost cost;
  std::map<DType, std::uint64_t> bytes;
  for (const Node& node : model.graph().nodes) {
    cost.decode_bytes += node.weight_bytes();
    cost.decode_macs += node.macs();
    if (&node != &model.graph().nodes.back()) cost.prompt_macs += node.macs();
    for (const Matrix& matrix : node.matrices)
      if (matrix.kernel.run != nullptr) bytes[matrix.weight.dtype] += matrix.weight.bytes;
  }
  cost.dtype = name(std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) {
                      return a.second < b.second;
                    })->first);
  return cost;
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options) {}

  void run(const std::string& label, const std::string& path) {
    const auto model =
        Model::load(path, {.mmap = !options_.no_mmap, .mlock = false, .pre_tokenizer = {}});
    cost_ = token_cost(*model);
    label_ = label;
    for (const unsigned threads : options_.threads) {
      if (options_.roofline || !options_.verify.empty()) limits_ = measure(*model, threads);
      if (run_passes(*model, threads)) continue;
      for (const std::size_t depth : options_.depth) run_depth(*model, threads, depth);
    }
  }
  [[nodiscard]] bool has_rows() const { return !rows_.empty() || (passes_ && !passes_->empty()); }
  void print(std::ostream& out, BenchFormat format) const {
    if (passes_)
      passes_->print(out, format);
    else
      print_report(out, format, rows_);
  }

 private:
  /// Whether passes of several tokens are what is wanted.
  bool run_passes(const Model& model, unsigned threads) {
    PassBench how{.label = label_,
                  .dtype = cost_.dtype,
                  .threads = threads,
                  .default_threads = options_.default_threads};
    how.repetitions = options_.repetitions;
    how.batch = options_.batch;
    how.kv_type = parse_kv_type(options_.kv_type);
    how.depth = options_.depth[0];
    how.prompt = std::max<std::size_t>(options_.prompt[0], 1);
    how.decode = std::max<std::size_t>(options_.decode[0], 1);
    if (!options_.verify.empty()) {
      const PassLimit limit =
          measure_pass_limit(model, kernels_in_use(), limits_.read_gbytes, threads);
      bench_verify(model, how, options_.verify, limit, passes(verify_table));
    } else if (!options_.parallel.empty()) {
      bench_parallel(model, how, options_.parallel, options_.shared_prompt, passes(parallel_table));
    } else if (!options_.speculate.empty()) {
      bench_speculate(model, how, options_.speculate, passes(speculate_table));
    } else {
      return false;
    }
    return true;
  }
  FiguresTable& passes(FiguresTable (*make)()) {
    if (!passes_) passes_ = make();
    return *passes_;
  }

  /// Anew for every model: reading its own weights is what decoding is held against.
  static Roofline measure(const Model& model, unsigned threads) {
    const Roofline limit =
        measure_roofline(kernels_in_use(), threads, readable_weights(model.file()));
    print_line("roofline, " + counted(threads, "thread") + " (" +
               std::string(kernels_in_use().isa) + "): " + roofline_text(limit));
    return limit;
  }

  void run_depth(const Model& model, unsigned threads, std::size_t depth) {
    const std::size_t most =
        std::max(*std::max_element(options_.prompt.begin(), options_.prompt.end()),
                 *std::max_element(options_.decode.begin(), options_.decode.end()));
    SessionOptions session_options;
    session_options.n_ctx = static_cast<std::uint32_t>(depth + most);
    session_options.n_batch = options_.batch;
    session_options.threads = options_.default_threads ? 0 : threads;
    session_options.threads_prefill = options_.threads_prefill;
    session_options.kv_type = parse_kv_type(options_.kv_type);
    Session session(model, session_options);
    const std::vector<TokenId> tokens = random_tokens(model, depth + most);
    const auto at_depth = [&] {
      session.truncate(depth);
      if (session.tokens().size() < depth)
        session.eval(std::span(tokens).first(depth).subspan(session.tokens().size()));
      session.profile(leader_ != nullptr);
    };
    for (const std::size_t n : options_.prompt) {
      if (n == 0) continue;
      add("pp", n, depth, threads,
          time_repetitions(test_name("pp", n, depth), options_.repetitions, n, at_depth,
                           [&](const auto&) { session.eval(std::span(tokens).subspan(depth, n)); }),
          session);
    }
    for (const std::size_t n : options_.decode) {
      if (n == 0) continue;
      std::vector<double>
          read_rates;  // before each repetition: what memory gives can change within seconds
      const auto at_depth_and_read = [&] {
        at_depth();
        if (options_.roofline)
          read_rates.push_back(
              read_gbytes(kernels_in_use(), threads, readable_weights(model.file())));
      };
      const std::vector<double> times =
          time_repetitions(test_name("tg", n, depth), options_.repetitions, n, at_depth_and_read,
                           [&](const auto& on_token) {
                             for (std::size_t i = 0; i < n; ++i) {
                               session.eval(std::span(tokens).subspan(depth + i, 1));
                               on_token(i + 1);
                             }
                           });
      add("tg", n, depth, threads, times, session);
      if (options_.roofline) rows_.back().roofline_fraction = share_read(n, times, read_rates);
    }
  }

  static std::string test_name(const std::string& kind, std::size_t n, std::size_t depth) {
    return kind + std::to_string(n) + (depth != 0 ? "@d" + std::to_string(depth) : "");
  }

  /// The mean of the repetitions' shares. read_rates: GB/s, one more than times, for the run that
  /// is not counted. Negative if there was no memory to measure them with.
  [[nodiscard]] double share_read(std::size_t n, const std::vector<double>& times,
                                  const std::vector<double>& read_rates) const {
    const double gbytes = 1e-9 * static_cast<double>(n * cost_.decode_bytes);
    double sum = 0;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (read_rates[i + 1] == 0) return -1;
      sum += gbytes / times[i] / read_rates[i + 1];
    }
    return sum / static_cast<double>(times.size());
  }

  void add(const std::string& kind, std::size_t n, std::size_t depth, unsigned threads,
           const std::vector<double>& times, const Session& session) {
    std::vector<double> rates;
    rates.reserve(times.size());
    for (const double time : times) rates.push_back(static_cast<double>(n) / time);
    const auto count = static_cast<double>(rates.size());
    double mean = 0, square = 0;
    for (const double rate : rates) mean += rate / count;
    for (const double rate : rates) square += (rate - mean) * (rate - mean);
    const bool prompt = kind == "pp";
    BenchRow row{
        .model = label_,
        .dtype = cost_.dtype,
        .weight_bytes = cost_.decode_bytes,
        .threads = threads,
        .test = test_name(kind, n, depth),
        .tokens_per_second = mean,
        .stddev = rates.size() > 1 ? std::sqrt(square / (count - 1)) : 0,
        .gbytes_per_second = prompt ? 0 : 1e-9 * mean * static_cast<double>(cost_.decode_bytes),
        .gmac_per_second =
            1e-9 * mean * static_cast<double>(prompt ? cost_.prompt_macs : cost_.decode_macs),
        .roofline_fraction = -1,
        .gathers = {}};
    if (options_.roofline && prompt) {
      const DTypeInfo* const type = find_dtype(cost_.dtype);
      const double most = type ? limits_.peak(*type) : limits_.int8_gmacs;
      if (most > 0) row.roofline_fraction = row.gmac_per_second / most;
    }
    if (leader_ != nullptr)  // of the last repetition
      row.gathers = GatherReport::of(leader_->ranks().size(), n, times.back(), session.profile());
    rows_.push_back(std::move(row));
  }

  const BenchOptions& options_;
  const Leader* const leader_ = Leader::current();  // of several ranks
  std::string label_;
  TokenCost cost_;
  Roofline limits_{};  ///< for the threads of now, if they are wanted
  std::vector<BenchRow> rows_;
  std::optional<FiguresTable> passes_;
};

/// Says which options are best for each model.
void run_tune(BenchOptions options) {
  if (Leader::current() != nullptr)
    throw Error("", "--tune measures one process, not several ranks");
  if (options.models.empty()) options.models.emplace_back();
  const TuneHow how{.prompt = std::max<std::size_t>(options.prompt[0], 1),
                    .decode = std::max<std::size_t>(options.decode[0], 1),
                    .rounds = options.repetitions,
                    .kv_type = parse_kv_type(options.kv_type)};
  auto all = nlohmann::ordered_json::array();
  for (const std::string& named : options.models) {
    const std::string path = find_model(named),
                      label = std::filesystem::path(path).filename().string();
    const TuneResult result = tune(path, how);
    if (options.remember) {
      remember_options(path, result.options());
      print_note("remembered in " + tuned_path() + "; --no-tuned turns it off");
    }
    if (options.format == BenchFormat::Json)
      all.push_back(tune_json(label, result));
    else
      write_stdout(tune_line(label, result) + "\n");
  }
  if (options.format == BenchFormat::Json) write_stdout(json_text(all));
}

void run_bench(BenchOptions options) {
  static_cast<void>(kernels_in_use());  // throws before --synthetic makes a file
  const Leader* const leader = Leader::current();
  if (options.roofline && leader != nullptr)
    throw Error("", "--roofline measures one machine, not several ranks");
  if (options.threads.empty()) {
    options.threads.push_back(default_threads(leader == nullptr ? nullptr : &leader->ranks()));
    options.default_threads = true;
  }
  options.ranks.apply(options.default_threads ? 0 : options.threads[0]);
  Bench bench(options);
  if (options.models.empty() && options.synthetic.empty()) options.models.push_back(find_model(""));
  const auto print = [&] {
    std::ostringstream out;
    bench.print(out, options.format);
    write_stdout(out.str());
  };
  try {
    for (const std::string& path : options.models)
      bench.run(std::filesystem::path(path).filename().string(), find_model(path));
    for (const std::string& spec : options.synthetic) {
      const SyntheticFile file(spec, options.write);
      bench.run(spec, file.path());
    }
  } catch (...) {  // Ctrl-C, or the next model: what was measured took its time
    if (bench.has_rows()) print();
    throw;
  }
  print();
}

/// Some measurements take one length only.
void require_one_length(const CLI::Option& measurement,
                        std::initializer_list<const CLI::Option*> lengths) {
  if (measurement.count() == 0) return;
  for (const CLI::Option* length : lengths)
    if (length->count() > 1 && is_typed(*length))
      throw CLI::ValidationError(length->get_name(), "expected one number with " +
                                                         measurement.get_name() + ", got several");
}

/// Options that others exclude, or that say whether they were typed.
struct BenchDeclared {
  CLI::Option *prompt, *decode, *depth, *repetitions, *verify, *parallel, *speculate, *tune;
};

void add_lengths(CLI::App& command, BenchOptions& options, BenchDeclared& declared) {
  declared.prompt =
      command.add_option("-p,--prompt", options.prompt, "prompt lengths in tokens; 0: none");
  declared.decode = command.add_option("-n,--decode", options.decode, "tokens to decode; 0: none");
  declared.depth =
      command.add_option("-d,--depth", options.depth, "tokens already in the KV cache");
  for (CLI::Option* length : {declared.prompt, declared.decode, declared.depth})
    length->type_name("N,...")->delimiter(',')->check(range(0, 1 << 24))->capture_default_str();
  declared.repetitions =
      command.add_option("-r,--repetitions", options.repetitions,
                         "measured runs, after one warm-up run (none with --parallel)");
  declared.repetitions->capture_default_str()->type_name("N")->check(range(1, 1000));
}

/// How the model is run.
void add_engine_options(CLI::App& command, BenchOptions& options) {
  command
      .add_option("-t,--threads", options.threads,
                  "numbers of threads (default: the physical cores)")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(range(1, 1024));
  command
      .add_option("--threads-prefill", options.threads_prefill,
                  "threads for prompts (default: as --threads)")
      ->type_name("N")
      ->check(range(1, 1024));
  command.add_option("-b,--batch", options.batch, "prompt tokens evaluated at once")
      ->capture_default_str()
      ->type_name("N")
      ->check(range(1, 4096));
  command.add_option("--kv-type", options.kv_type, "type of the cached keys and values")
      ->capture_default_str()
      ->check(CLI::IsMember({"f16", "f32", "q8_0"}));
  options.ranks.add_to(command);
}

/// What is measured instead of prompts and decoding one after the other.
void add_modes(CLI::App& command, BenchOptions& options, BenchDeclared& declared) {
  declared.verify = command.add_option(
      "--verify", options.verify,
      "time of one pass over N tokens with logits for each, compared with the machine's "
      "limit (1.25 times the slower of reading the weights and computing)");
  declared.verify->type_name("N,...")->delimiter(',')->check(range(1, 65536));
  declared.parallel = command.add_option(
      "--parallel", options.parallel,
      "N sequences at once: total tokens/s of their prompts (-p) and of decoding (-n)");
  declared.parallel->type_name("N,...")->delimiter(',')->check(range(1, 1024));
  command
      .add_flag("--shared-prompt", options.shared_prompt,
                "all sequences have the same prompt, which is read once")
      ->needs(declared.parallel);
  declared.speculate =
      command.add_option("--speculate-rates", options.speculate,
                         "speed of decoding where this percentage of guessed tokens is "
                         "right, compared with decoding without guesses");
  declared.speculate->type_name("PERCENT,...")->delimiter(',')->check(range(0, 100));
}

void add_tune(CLI::App& command, BenchOptions& options, BenchDeclared& declared) {
  declared.tune =
      command.add_flag("--tune", options.tune,
                       "try numbers of threads, batch sizes and huge pages, and print the best "
                       "options for this model on this machine in one line");
  command
      .add_flag("--remember", options.remember,
                "with --tune: run, chat, serve, bench and others use these options for this model "
                "on this "
                "machine from now on")
      ->needs(declared.tune);
}

/// Each mode has its own lengths, and there is one at a time.
void exclude_what_does_not_count(const BenchDeclared& declared) {
  const auto [prompt, decode, depth, repetitions, verify, parallel, speculate, tunes] = declared;
  verify->excludes(prompt)->excludes(decode)->excludes(parallel)->excludes(speculate);
  parallel->excludes(depth)->excludes(speculate);
  speculate->excludes(depth);
  for (CLI::Option* mode : {verify, parallel, speculate}) mode->excludes("--threads-prefill");
  for (CLI::Option* mode : {parallel, speculate})
    mode->excludes("--roofline");  // their tables have no share
  for (const char* other : {"--synthetic", "--depth", "--threads", "--threads-prefill", "--batch",
                            "--verify", "--parallel", "--speculate-rates", "--roofline",
                            "--no-mmap", "--csv", "--md", "--shares", "--rank-timeout"})
    tunes->excludes(other);
}

int run_declared(BenchOptions options, const BenchDeclared& declared) {
  const auto [prompt, decode, depth, repetitions, verify, parallel, speculate, tunes] = declared;
  require_one_length(*verify, {depth});
  for (const CLI::Option* mode : {parallel, speculate, tunes})
    require_one_length(*mode, {prompt, decode});
  const auto none = [](const auto& lengths) {
    return std::ranges::count(lengths, 0U) == std::ssize(lengths);
  };
  const bool lengths_alone = !options.tune && !options.roofline &&
                             verify->count() + parallel->count() + speculate->count() == 0;
  if (lengths_alone && none(options.prompt) && none(options.decode))
    throw CLI::ValidationError("nothing to measure: -p and -n are 0");
  if (!options.tune) return run_bench(std::move(options)), 0;
  if (prompt->count() == 0) options.prompt = {1024};  // two of the usual batches
  if (decode->count() == 0) options.decode = {32};
  if (repetitions->count() == 0) options.repetitions = 3;
  return run_tune(std::move(options)), 0;
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure tokens per second of prompts (pp) and of decoding (tg)");
  auto options = std::make_shared<BenchOptions>();
  BenchDeclared declared{};
  CLI::Option* const models = command->add_option("-m,--model", options->models,
                                                  "GGUF files (default: the bundled demo model)");
  models->type_name("FILE");
  CLI::Option* const synthetic = command->add_option(
      "--synthetic", options->synthetic,
      "a model with random weights in the shape of a real one, such as 1.1b:Q4_K; may be repeated");
  synthetic->type_name("SHAPE:TYPE")->check(check_synthetic);
  command->add_option("--write", options->write, "keep the file of the (last) synthetic model here")
      ->type_name("FILE")
      ->needs("--synthetic");
  add_lengths(*command, *options, declared);
  add_engine_options(*command, *options);
  add_modes(*command, *options, declared);
  add_tuned_option(*command);
  command->add_flag(
      "--roofline", options->roofline,
      "also measure the machine's limits, and show the share of them that is reached");
  command->add_flag("--no-mmap", options->no_mmap,
                    "read the file into memory instead of mapping it");
  add_report_options(*command, options->format);
  add_tune(*command, *options, declared);
  exclude_what_does_not_count(declared);
  command->footer(
      "Examples:\n  cria bench -m model.gguf -p 512 -n 128 -t 1,2\n  cria bench --synthetic "
      "1.1b:Q4_K "
      "--synthetic 1.1b:IQ3_S --roofline\n  cria bench -m model.gguf --verify 1,2,4,8,16\n  cria "
      "bench -m "
      "model.gguf -p 512 -n 128 --parallel 1,8,32\n  cria bench -m model.gguf --tune --remember");
  on_run(command, [options, declared, models, synthetic] {
    if (is_typed(*synthetic) && !is_typed(*models))
      options->models.clear();  // a configured one is not asked for
    return run_declared(*options, declared);
  });
}

}  // namespace cria::tools
