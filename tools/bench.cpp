// `cria bench`: tokens per second of prompts and of decoding, beside the machine's limits.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

#include "engine/session.h"
#include "engine/synthetic.h"
#include "engine/team.h"
#include "tools/bench_report.h"
#include "tools/commands.h"
#include "tools/common.h"
#include "tools/roofline.h"

namespace cria::tools {
namespace {

struct BenchOptions {
  std::vector<std::string> models;     ///< files
  std::vector<std::string> synthetic;  ///< SHAPE:TYPE
  std::string write;                   ///< keep the synthetic file here
  std::vector<std::size_t> prompt{512}, decode{128}, depth{0};
  std::vector<unsigned> threads;
  unsigned repetitions = 5, batch = 512;
  std::string kv_type = "f16";
  bool roofline = false, json = false, csv = false, markdown = false, no_mmap = false;
};

/// What one token costs, from the weights that the graph multiplies.
struct TokenCost {
  std::uint64_t decode_bytes = 0, prompt_macs = 0, decode_macs = 0;
  std::string dtype;  ///< the type that most bytes have
};

TokenCost token_cost(const Model& model) {
  TokenCost cost;
  std::map<DType, std::uint64_t> bytes;
  const auto count = [&](const TensorView* tensor, bool prompt) {
    const std::uint64_t macs = tensor->cols() * tensor->rows();
    cost.decode_bytes += tensor->bytes;
    cost.decode_macs += macs;
    if (prompt) cost.prompt_macs += macs;
    bytes[tensor->dtype] += tensor->bytes;
  };
  for (const LayerWeights& layer : model.weights().layers)
    for (const TensorView* tensor : {layer.q, layer.k, layer.v, layer.o, layer.gate, layer.up, layer.down})
      count(tensor, true);
  count(model.weights().output, false);
  cost.dtype = name(std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) {
                      return a.second < b.second;
                    })->first);
  return cost;
}

std::vector<TokenId> random_tokens(const Model& model, std::size_t n) {
  std::mt19937 generator(1);
  std::vector<TokenId> ids(n);
  const auto vocabulary = static_cast<std::uint32_t>(model.config().n_vocab);
  for (TokenId& id : ids) id = static_cast<TokenId>(generator() % vocabulary);
  return ids;
}

/// Seconds that `work` takes, one figure per repetition after one run that is not counted.
template <class Prepare, class Work>
std::vector<double> time_repetitions(unsigned repetitions, Prepare prepare, Work work) {
  std::vector<double> times;
  for (unsigned i = 0; i <= repetitions; ++i) {
    prepare();
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (i > 0) times.push_back(spent.count());
  }
  return times;
}

class Bench {
 public:
  explicit Bench(const BenchOptions& options) : options_(options) {}

  void run(const std::string& label, const std::string& path) {
    const auto model = Model::load(path, {.map = options_.no_mmap ? MapMode::Read : MapMode::Mmap});
    cost_ = token_cost(*model);
    label_ = label;
    for (const unsigned threads : options_.threads) {
      if (options_.roofline && !rooflines_.contains(threads)) rooflines_[threads] = measure(threads);
      for (const std::size_t depth : options_.depth) run_depth(*model, threads, depth);
    }
  }
  [[nodiscard]] const std::vector<BenchRow>& rows() const { return rows_; }

 private:
  static Roofline measure(unsigned threads) {
    const Roofline limit = measure_roofline(*active_kernels(), threads);
    std::cerr << "roofline, " << threads << " threads (" << active_kernels()->isa << "): read "
              << limit.read_gbytes << " GB/s, int8 dot " << limit.int8_gmacs << " GMAC/s, float32 "
              << limit.float_gmacs << " GMAC/s";
    if (limit.bf16_gmacs > 0) std::cerr << ", bfloat16 " << limit.bf16_gmacs << " GMAC/s";
    if (limit.matrix_gmacs > 0) std::cerr << ", int8 matrix unit " << limit.matrix_gmacs << " GMAC/s";
    std::cerr << '\n';
    return limit;
  }

  void run_depth(const Model& model, unsigned threads, std::size_t depth) {
    const std::size_t most = std::max(*std::max_element(options_.prompt.begin(), options_.prompt.end()),
                                      *std::max_element(options_.decode.begin(), options_.decode.end()));
    SessionOptions session_options;
    session_options.n_ctx = static_cast<std::uint32_t>(depth + most);
    session_options.n_batch = options_.batch;
    session_options.threads = threads;
    session_options.kv_type = parse_kv_type(options_.kv_type);
    Session session(model, session_options);
    const std::vector<TokenId> tokens = random_tokens(model, depth + most);
    const auto at_depth = [&] {
      session.truncate(depth);
      if (session.tokens().size() < depth)
        session.eval(std::span(tokens).first(depth).subspan(session.tokens().size()));
    };
    for (const std::size_t n : options_.prompt) {
      if (n == 0) continue;
      add("pp", n, depth, threads, time_repetitions(options_.repetitions, at_depth, [&] {
            session.eval(std::span(tokens).subspan(depth, n));
          }));
    }
    for (const std::size_t n : options_.decode) {
      if (n == 0) continue;
      add("tg", n, depth, threads, time_repetitions(options_.repetitions, at_depth, [&] {
            for (std::size_t i = 0; i < n; ++i) session.eval(std::span(tokens).subspan(depth + i, 1));
          }));
    }
  }

  void add(const std::string& kind, std::size_t n, std::size_t depth, unsigned threads,
           const std::vector<double>& times) {
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
        .test = kind + std::to_string(n) + (depth ? "@d" + std::to_string(depth) : ""),
        .tokens_per_second = mean,
        .stddev = rates.size() > 1 ? std::sqrt(square / (count - 1)) : 0,
        .gbytes_per_second = prompt ? 0 : 1e-9 * mean * static_cast<double>(cost_.decode_bytes),
        .gmac_per_second = 1e-9 * mean * static_cast<double>(prompt ? cost_.prompt_macs : cost_.decode_macs),
        .roofline_fraction = -1};
    if (options_.roofline) {
      const Roofline& limit = rooflines_.at(threads);
      const DTypeInfo* const type = find_dtype(cost_.dtype);
      row.roofline_fraction = prompt ? row.gmac_per_second / (type ? limit.peak(*type) : limit.int8_gmacs)
                                     : row.gbytes_per_second / limit.read_gbytes;
    }
    rows_.push_back(std::move(row));
  }

  const BenchOptions& options_;
  std::string label_;
  TokenCost cost_;
  std::map<unsigned, Roofline> rooflines_;
  std::vector<BenchRow> rows_;
};

/// A synthetic model's file: kept where the user said, else gone with this object.
class SyntheticFile {
 public:
  SyntheticFile(const std::string& spec, const std::string& keep) : temporary_(keep.empty()) {
    const std::size_t colon = spec.find(':');
    if (colon == std::string::npos)
      throw Error("", "--synthetic " + spec + ": expected SHAPE:TYPE, for example 1.1b:Q4_K");
    const DTypeInfo* type = find_dtype(std::string_view(spec).substr(colon + 1));
    if (type == nullptr) throw Error("", "--synthetic " + spec + ": unknown type");
    path_ = keep.empty()
                ? (std::filesystem::temp_directory_path() /
                   ("cria-bench-" + std::to_string(getpid()) + "-" + std::string(type->name) + ".gguf"))
                      .string()
                : keep;
    write_synthetic(find_shape(std::string_view(spec).substr(0, colon)), type->id, path_);
  }
  ~SyntheticFile() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove(path_, ignored);
  }
  SyntheticFile(const SyntheticFile&) = delete;
  SyntheticFile& operator=(const SyntheticFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_;
};

void run_bench(BenchOptions options) {
  if (options.threads.empty()) options.threads.push_back(usable_cores());
  Bench bench(options);
  if (options.models.empty() && options.synthetic.empty()) options.models.push_back(find_model(""));
  for (const std::string& path : options.models)
    bench.run(std::filesystem::path(path).filename().string(), path);
  for (const std::string& spec : options.synthetic) {
    const SyntheticFile file(spec, options.write);
    bench.run(spec, file.path());
  }
  const BenchFormat format = options.json       ? BenchFormat::Json
                             : options.csv      ? BenchFormat::Csv
                             : options.markdown ? BenchFormat::Markdown
                                                : BenchFormat::Table;
  std::ostringstream out;
  print_report(out, format, bench.rows());
  write_stdout(out.str());
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure tokens per second of prompts (pp) and of decoding (tg)");
  auto options = std::make_shared<BenchOptions>();
  command->add_option("-m,--model", options->models, "GGUF files (default: the bundled demo model)")
      ->type_name("FILE");
  command
      ->add_option("--synthetic", options->synthetic,
                   "models that do not exist: a real model's shape with random weights, like 1.1b:Q4_K")
      ->type_name("SHAPE:TYPE");
  command->add_option("--write", options->write, "keep the (last) synthetic model's file here")
      ->type_name("FILE");
  command->add_option("-p,--prompt", options->prompt, "prompt lengths; 0: none")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("-n,--decode", options->decode, "tokens to decode; 0: none")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("-d,--depth", options->depth, "tokens already in the KV cache")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("-r,--repetitions", options->repetitions, "runs counted, after one that is not")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("-t,--threads", options->threads, "numbers of threads (default: the physical cores)")
      ->delimiter(',');
  command->add_option("-b,--batch", options->batch, "tokens per prefill chunk")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  command->add_option("--kv-type", options->kv_type, "f16, f32 or q8_0")
      ->capture_default_str()
      ->check(CLI::IsMember({"f16", "f32", "q8_0"}));
  command->add_flag("--roofline", options->roofline,
                    "measure the machine's limits too, and say the share reached");
  command->add_flag("--no-mmap", options->no_mmap, "read the file into memory instead of mapping it");
  command->add_flag("--json", options->json, "an array of objects");
  command->add_flag("--csv", options->csv, "comma-separated values");
  command->add_flag("--md", options->markdown, "a Markdown table");
  command->footer(
      "Examples:\n  cria bench -m model.gguf -p 512 -n 128 -t 1,2\n  cria bench --synthetic 1.1b:Q4_K "
      "--synthetic 1.1b:IQ3_S --roofline");
  command->callback([options] { run_bench(*options); });
}

}  // namespace cria::tools
