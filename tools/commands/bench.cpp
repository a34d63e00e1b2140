// `cria bench`: tokens per second of prefill and decoding, and the machine's limits.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "engine/distribute/leader.h"
#include "engine/execute/machine.h"
#include "engine/model_parts.h"
#include "engine/session.h"
#include "model/plural.h"
#include "tools/cli/settings.h"
#include "tools/commands/bench_passes.h"
#include "tools/commands/bench_report.h"
#include "tools/commands/commands.h"
#include "tools/commands/tune.h"
#include "tools/model_store.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/ranks/process_ranks.h"
#include "tools/report/roofline.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct BenchOptions {
  std::vector<std::string> models;     ///< files
  std::vector<std::string> synthetic;  ///< SHAPE:TYPE
  std::string write;                   ///< keep the synthetic file here
  std::vector<std::size_t> prompt{512}, decode{128}, depth{0};
  std::vector<unsigned> threads;
  bool default_threads = false;  ///< threads: the default here; other ranks have their own
  SessionOptions session;        ///< threads_prefill, n_batch, kv_type
  unsigned repetitions = 5;
  std::vector<std::size_t> verify, parallel, speculate;  ///< tokens, sequences, per cent
  bool shared_prompt = false;
  BenchFormat format = BenchFormat::Table;
  bool roofline = false, no_mmap = false;
  bool tune = false, remember = false;
  RankOptions ranks;
};

/// Cost of one token, from the weights that the graph multiplies.
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
    const auto model = Model::load(path, {.mmap = !options_.no_mmap, .cluster = rank_leader()});
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
  /// Runs the modes that measure passes of several tokens; false if none is requested.
  bool run_passes(const Model& model, unsigned threads) {
    PassBench how{.label = label_,
                  .dtype = cost_.dtype,
                  .threads = threads,
                  .default_threads = options_.default_threads};
    how.repetitions = options_.repetitions;
    how.batch = options_.session.n_batch;
    how.kv_type = options_.session.kv_type;
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
    session_options.n_batch = options_.session.n_batch;
    session_options.threads = options_.default_threads ? 0 : threads;
    session_options.threads_prefill = options_.session.threads_prefill;
    session_options.kv_type = options_.session.kv_type;
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

  /// The mean of the repetitions' shares. read_rates: GB/s, one more than times, for the warm-up
  /// run. Negative if memory was too small to measure them.
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
    if (leader_ != nullptr)  // the last repetition's
      row.gathers = GatherReport::of(leader_->ranks().size(), n, times.back(), session.profile());
    rows_.push_back(std::move(row));
  }

  const BenchOptions& options_;
  const std::shared_ptr<const Leader> leader_ = rank_leader();  // null: a single process
  std::string label_;
  TokenCost cost_;
  Roofline limits_{};  ///< for the threads of now, if they are wanted
  std::vector<BenchRow> rows_;
  std::optional<FiguresTable> passes_;
};

/// Says which options are best for each model.
void run_tune(BenchOptions options) {
  if (rank_leader() != nullptr) throw Error("", "--tune measures one process, not several ranks");
  if (options.models.empty()) options.models.emplace_back();
  const TuneHow how{.prompt = std::max<std::size_t>(options.prompt[0], 1),
                    .decode = std::max<std::size_t>(options.decode[0], 1),
                    .rounds = options.repetitions,
                    .kv_type = options.session.kv_type};
  auto all = Json::array();
  for (const std::string& named : options.models) {
    const std::string path = find_model(named),
                      label = std::filesystem::path(path).filename().string();
    const TuneResult result = tune(path, how);
    if (options.remember) {
      remember_options(path, result.options());
      print_note("remembered in " + tuned_path() + "; --no-tuned turns it off");
    }
    if (options.format == BenchFormat::JsonArray)
      all.push_back(tune_json(label, result));
    else
      write_stdout(tune_line(label, result) + "\n");
  }
  if (options.format == BenchFormat::JsonArray) write_stdout(json_text(all));
}

void run_bench(BenchOptions options) {
  static_cast<void>(kernels_in_use());  // throws before --synthetic makes a file
  const std::shared_ptr<const Leader> leader = rank_leader();
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

/// Throws UsageError if one of the lengths was typed as a list; `mode` takes only one.
void require_one_length(const Command& command, const char* mode, const Words& lengths) {
  if (!command.given(mode)) return;
  for (const std::string& name : lengths) {
    const Flag& length = *command.find(name);
    std::size_t count = 0;
    for (const std::string& word : length.given) count += parts_of(word).size();
    if (count > 1 && length.is_typed())
      throw UsageError(name, std::string("expected one number with ") + mode + ", got several");
  }
}

/// Modes that replace the plain measurement of prefill and decoding; one at a time.
Flags mode_flags(BenchOptions& o) {
  return {
      {"--verify",
       "N,...",
       "time of one pass over N tokens with logits for each, compared with the machine's limit "
       "(1.25 times the slower of reading the weights and computing)",
       into::number(o.verify, 1, 65536),
       {.excludes = "--prompt,--decode,--parallel,--speculate-rates,--threads-prefill"}},
      {"--parallel",
       "N,...",
       "N sequences at once: total tokens/s of their prompts (-p) and of decoding (-n)",
       into::number(o.parallel, 1, 1024),
       {.excludes = "--depth,--speculate-rates,--threads-prefill,--roofline"}},
      {"--shared-prompt",
       "",
       "all sequences have the same prompt, which is evaluated once",
       into::flag(o.shared_prompt),
       {.needs = "--parallel"}},
      {"--speculate-rates",
       "PERCENT,...",
       "speed of decoding when this percentage of draft tokens is accepted, compared with decoding "
       "without drafts; a model with a prediction layer drafts by it",
       into::number(o.speculate, 0, 100),
       {.excludes = "--depth,--threads-prefill,--roofline"}},
  };
}

int run_checked(BenchOptions options, const Command& command) {
  require_one_length(command, "--verify", {"--depth"});
  for (const char* mode : {"--parallel", "--speculate-rates", "--tune"})
    require_one_length(command, mode, {"--prompt", "--decode"});
  const auto none = [](const auto& lengths) {
    return std::ranges::count(lengths, 0U) == std::ssize(lengths);
  };
  const bool lengths_alone = !options.tune && !options.roofline && options.verify.empty() &&
                             options.parallel.empty() && options.speculate.empty();
  if (lengths_alone && none(options.prompt) && none(options.decode))
    throw UsageError("nothing to measure: -p and -n are 0");
  if (!options.tune) return run_bench(std::move(options)), 0;
  if (!command.given("--prompt")) options.prompt = {1024};  // two of the usual batches
  if (!command.given("--decode")) options.decode = {32};
  if (!command.given("--repetitions")) options.repetitions = 3;
  return run_tune(std::move(options)), 0;
}

}  // namespace

void add_bench(Program& program) {
  Command& command =
      program.add("bench", "Measure tokens per second of prompts (pp) and of decoding (tg)");
  auto options = std::make_shared<BenchOptions>();
  BenchOptions& o = *options;
  command.add({
      {"-m,--model", "FILE", "GGUF files (default: the bundled demo model)",
       into::words_or_list(o.models)},
      {"--synthetic", "SHAPE:TYPE",
       "a model with random weights in the shape of a real one, such as 1.1b:Q4_K; may be repeated",
       into::words(o.synthetic, parse_synthetic)},
      {"--write",
       "FILE",
       "keep the file of the (last) synthetic model here",
       into::text(o.write),
       {.needs = "--synthetic"}},
      {"-p,--prompt", "N,...", "prompt lengths in tokens; 0: none",
       into::number(o.prompt, 0, 1 << 24)},
      {"-n,--decode", "N,...", "tokens to decode; 0: none", into::number(o.decode, 0, 1 << 24)},
      {"-d,--depth", "N,...", "tokens already in the KV cache", into::number(o.depth, 0, 1 << 24)},
      {"-r,--repetitions", "N", "measured runs, after one warm-up run (none with --parallel)",
       into::number(o.repetitions, 1, 1000)},
      {"-t,--threads", "N,...", "numbers of threads (default: the physical cores)",
       into::number(o.threads, 1, 1024)},
  });
  command.add(only(engine_flags(o.session), "--threads-prefill,--batch,--kv-type"));
  command.add(rank_flags(o.ranks));
  command.add(mode_flags(o));
  command.add({
      tuned_flag(),
      {"--roofline", "",
       "also measure the machine's limits, and show the share of them that is reached",
       into::flag(o.roofline)},
      {"--no-mmap", "", "read the file into memory instead of mapping it", into::flag(o.no_mmap)},
  });
  command.add(report_flags(o.format));
  command.add({
      {"--tune",
       "",
       "try numbers of threads, batch sizes and huge pages, and print the best options for this "
       "model on this machine in one line",
       into::flag(o.tune),
       {.excludes = "--synthetic,--depth,--threads,--threads-prefill,--batch,--verify,--parallel,--"
                    "speculate-rates,--roofline,--no-mmap,--csv,--md,--shares,--rank-timeout"}},
      {"--remember",
       "",
       "with --tune: run, chat, serve, bench and others use these options for this model on this "
       "machine from now on",
       into::flag(o.remember),
       {.needs = "--tune"}},
  });
  command.notes =
      "Examples:\n  cria bench -m model.gguf -p 512 -n 128 -t 1,2\n  cria bench --synthetic "
      "1.1b:Q4_K "
      "--synthetic 1.1b:IQ3_S --roofline\n  cria bench -m model.gguf --verify 1,2,4,8,16\n  cria "
      "bench -m "
      "model.gguf -p 512 -n 128 --parallel 1,8,32\n  cria bench -m model.gguf --tune --remember";
  command.run = [&command, options] {
    if (command.typed("--synthetic") && !command.typed("--model"))
      options->models.clear();  // a configured one is not asked for
    return run_checked(*options, command);
  };
}

}  // namespace cria::tools
