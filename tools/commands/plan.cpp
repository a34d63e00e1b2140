// `cria plan`: what a model would need and reach on several machines.
#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>

#include "engine/distribute/measure_machine.h"
#include "engine/execute/machine.h"
#include "engine/model_parts.h"
#include "engine/session.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/command.h"
#include "tools/options/find_model.h"
#include "tools/options/report_format.h"
#include "tools/options/synthetic_file.h"
#include "tools/report/figures_table.h"
#include "tools/terminal/messages.h"
#include "tools/terminal/standard_output.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct PlanOptions {
  std::string model, synthetic, link = "10gbe", kv_type = "f16";
  std::vector<std::size_t> machines{1, 2, 4, 8, 16, 32};
  std::size_t context = 4096, prompt = 0,
              batch = 512;  ///< prompt: 0: as many as the cache holds, at most 512
  unsigned threads = 0;
  double read_gbytes = 0, gmacs = 0;  ///< 0: measured
  BenchFormat format = BenchFormat::Table;
};

MachineRates rates_of(const PlanOptions& options, const Model& model, const PlannedWork& work) {
  MachineRates rates;
  const bool given = options.read_gbytes > 0;
  if (given) {
    rates.read = 1e9 * options.read_gbytes;
    rates.products = 1e9 * options.gmacs;
  } else {
    rates = measure_machine(model, work);
  }
  print_line("each machine (" +
             std::string(given ? "given" : "measured here, " + counted(work.threads, "thread")) +
             "): decodes " + fixed(1e-9 * rates.read, 1) + " GB/s of weights, multiplies " +
             fixed(1e-9 * rates.products, 1) + " GMAC/s of prompts");
  return rates;
}

/// What is wrong with it; "": nothing.
std::string check_link(const std::string& text) {
  try {
    static_cast<void>(parse_link(text));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

FiguresTable plan_table() {
  return FiguresTable({{"machines", "machines"},
                       {"weights_mib", "weights, MiB"},
                       {"kv_mib", "KV, MiB"},
                       {"work_mib", "work, MiB"},
                       {"prompt_tokens_per_second", "prompt/s", 1},
                       {"prompt_link_percent", "link, %", 1},
                       {"decode_tokens_per_second", "decode/s", 1},
                       {"decode_link_percent", "link, %", 1}});
}

void run_plan(PlanOptions options) {
  if (options.prompt == 0) options.prompt = std::min<std::size_t>(512, options.context);
  if (options.prompt > options.context)
    throw CLI::ValidationError("--prompt", "longer than the cache: expected at most " +
                                               std::to_string(options.context) + " (--ctx), got " +
                                               std::to_string(options.prompt));
  const Link link = parse_link(options.link);
  std::optional<SyntheticFile> synthetic;
  if (!options.synthetic.empty())
    synthetic.emplace(options.synthetic, "", SyntheticFile::Weights::Holes);
  const auto model = Model::load(synthetic ? synthetic->path() : find_model(options.model));
  const PlannedWork work{.kv_type = parse_kv_type(options.kv_type),
                         .n_ctx = options.context,
                         .prompt = options.prompt,
                         .n_batch = options.batch,
                         .threads = options.threads == 0 ? usable_cores() : options.threads};
  const MachineRates rates = rates_of(options, *model, work);
  print_line("link: " + fixed(1e6 * link.latency, 1) + " µs, " + fixed(8e-9 * link.rate, 1) +
             " Gbit/s");
  FiguresTable table = plan_table();
  const auto mib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const auto waiting = [](const PlannedSpeed& speed) { return 100 * speed.link / speed.seconds; };
  for (const std::size_t machines : options.machines) {
    const MachinesPlan plan = plan_machines(model->graph(), work, rates, link, machines);
    table.add({static_cast<double>(machines), mib(plan.weights), mib(plan.kv), mib(plan.work),
               plan.prompt.tokens_per_second(), waiting(plan.prompt),
               plan.decode.tokens_per_second(), waiting(plan.decode)});
  }
  std::ostringstream out;
  table.print(out, options.format);
  write_stdout(out.str());
}

constexpr const char* kFooter =
    "Memory is that of the machine that needs most: its part of the weights, the keys and values "
    "of its "
    "heads, and work space. A token's time is the sum over the graph's nodes of computing the "
    "largest part "
    "(reading weights in decoding, multiply-adds in prompts) and of sending results between the "
    "machines "
    "(latency and bytes). With --read-rate and --gmacs nothing is measured, and attention and "
    "undivided work "
    "are left out. engine/README.md of the source describes the model.\n\n"
    "Examples:\n"
    "  cria plan -m model.gguf --link 25gbe\n"
    "  cria plan --synthetic 70b:Q4_K --machines 4,8,16 --link 100gbe-ib\n"
    "  cria plan -m model.gguf --link 50,10 --read-rate 80 --gmacs 2000";

void add_rates_and_output(CLI::App& command, const std::shared_ptr<PlanOptions>& options) {
  CLI::Option* read = command.add_option(
      "--read-rate", options->read_gbytes,
      "GB/s at which a machine reads weights in decoding (default: measured here)");
  CLI::Option* gmacs =
      command.add_option("--gmacs", options->gmacs,
                         "GMAC/s that a machine reaches for prompts (default: measured here)");
  for (CLI::Option* option : {read, gmacs}) option->type_name("X")->check(range(1e-3, 1e6));
  read->needs(gmacs);
  gmacs->needs(read);
  add_report_options(command, options->format);
}

}  // namespace

void add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "Predict memory and tokens per second of a model on several machines");
  auto options = std::make_shared<PlanOptions>();
  CLI::Option* model =
      command
          ->add_option("-m,--model", options->model, "GGUF file (default: the bundled demo model)")
          ->type_name("FILE");
  command
      ->add_option("--synthetic", options->synthetic,
                   "a model with random weights in the shape of a real one, such as 70b:Q4_K")
      ->type_name("SHAPE:TYPE")
      ->excludes(model)
      ->check(check_synthetic);
  command->add_option("--machines", options->machines, "numbers of machines; all are alike")
      ->type_name("N,...")
      ->delimiter(',')
      ->check(range(1, 1024))
      ->capture_default_str();
  command
      ->add_option(
          "--link", options->link,
          "network between them: 1gbe (50 µs), 10gbe (25 µs), 25gbe (20 µs), 100gbe-ib (2 µs), or "
          "the latency of a small message in µs and the rate in Gbit/s")
      ->type_name("NAME|LAT_US,GBPS")
      ->check(check_link)
      ->capture_default_str();
  command
      ->add_option("-t,--threads", options->threads,
                   "threads of each machine (default: the physical cores)")
      ->type_name("N")
      ->check(range(1, 1024));
  command->add_option("-c,--ctx", options->context, "context size in tokens")
      ->type_name("N")
      ->check(range(1, 1 << 24))
      ->capture_default_str();
  command
      ->add_option("-p,--prompt", options->prompt,
                   "tokens of a prompt (default: 512, or --ctx if that is less)")
      ->type_name("N")
      ->check(range(1, 1 << 24));
  command->add_option("-b,--batch", options->batch, "prompt tokens evaluated at once")
      ->type_name("N")
      ->check(range(1, 4096))
      ->capture_default_str();
  command->add_option("--kv-type", options->kv_type, "type of the cached keys and values")
      ->capture_default_str()
      ->check(CLI::IsMember({"f16", "f32", "q8_0"}));
  add_rates_and_output(*command, options);
  command->footer(kFooter);
  on_run(command, [options] { return run_plan(*options), 0; });
}

}  // namespace cria::tools
