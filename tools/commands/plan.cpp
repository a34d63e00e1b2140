// `cria plan`: what a model would need and reach on several machines.
#include <optional>
#include <sstream>

#include "engine/distribute/machines_plan.h"
#include "engine/execute/machine.h"
#include "engine/model_parts.h"
#include "engine/session.h"
#include "model/plural.h"
#include "tools/commands/bench_report.h"
#include "tools/commands/commands.h"
#include "tools/model_store.h"
#include "tools/options/model.h"
#include "tools/options/values.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct PlanOptions {
  std::string model, synthetic, link = "10gbe";
  std::vector<std::size_t> machines{1, 2, 4, 8, 16, 32};
  SessionOptions session{.n_ctx = 4096};
  std::size_t prompt = 0;             ///< 0: as many as the cache holds, at most 512
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
  print_line("per machine (" +
             std::string(given ? "given" : "measured here, " + counted(work.threads, "thread")) +
             "): " + fixed(1e-9 * rates.read, 1) + " GB/s when decoding, " +
             fixed(1e-9 * rates.products, 1) + " GMAC/s for prompts");
  return rates;
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
  if (options.prompt == 0) options.prompt = std::min<std::size_t>(512, options.session.n_ctx);
  if (options.prompt > options.session.n_ctx)
    throw UsageError("--prompt", "longer than the context: expected at most " +
                                     std::to_string(options.session.n_ctx) + " (--ctx), got " +
                                     std::to_string(options.prompt));
  const Link link = parse_link(options.link);
  std::optional<SyntheticFile> synthetic;
  if (!options.synthetic.empty())
    synthetic.emplace(options.synthetic, "", SyntheticFile::Weights::Holes);
  const auto model = Model::load(synthetic ? synthetic->path() : find_model(options.model));
  const PlannedWork work{
      .kv_type = options.session.kv_type,
      .n_ctx = options.session.n_ctx,
      .prompt = options.prompt,
      .n_batch = options.session.n_batch,
      .threads = options.session.threads == 0 ? usable_cores() : options.session.threads};
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
    "Memory is the need of the fullest machine: its shard of the weights, the KV cache "
    "of its "
    "heads, and work space. A token's time is the sum over the graph's nodes of computing the "
    "largest part "
    "(reading weights in decoding, multiply-adds in prompts) and of sending results between the "
    "machines "
    "(latency and bytes). With --read-rate and --gmacs nothing is measured, and attention, "
    "recurrent layers and undivided work are left out. engine/README.md of the source describes "
    "the model.\n\n"
    "Examples:\n"
    "  cria plan -m model.gguf --link 25gbe\n"
    "  cria plan --synthetic 70b:Q4_K --machines 4,8,16 --link 100gbe-ib\n"
    "  cria plan -m model.gguf --link 50,10 --read-rate 80 --gmacs 2000";

}  // namespace

void add_plan(Program& program) {
  Command& command =
      program.add("plan", "Predict memory and tokens per second of a model on several machines");
  auto options = std::make_shared<PlanOptions>();
  PlanOptions& o = *options;
  command.add({
      model_flag(o.model),
      {"--synthetic",
       "SHAPE:TYPE",
       "a model with random weights in the shape of a real one, such as 70b:Q4_K",
       into::text(o.synthetic, parse_synthetic),
       {.excludes = "--model"}},
      {"--machines", "N,...", "numbers of identical machines", into::number(o.machines, 1, 1024)},
      {"--link", "NAME|LAT_US,GBPS",
       "network between them: 1gbe (50 µs), 10gbe (25 µs), 25gbe (20 µs), 100gbe-ib (2 µs), or the "
       "latency of a small message in µs and the rate in Gbit/s",
       into::text(o.link, parse_link)},
      {"-c,--ctx", "N", "context size in tokens", into::number(o.session.n_ctx, 1, 1 << 24)},
      {"-p,--prompt", "N", "tokens of a prompt (default: 512, or --ctx if that is less)",
       into::number(o.prompt, 1, 1 << 24)},
      {"--read-rate",
       "X",
       "GB/s at which a machine reads weights in decoding (default: measured here)",
       into::number(o.read_gbytes, 1e-3, 1e6),
       {.needs = "--gmacs"}},
      {"--gmacs",
       "X",
       "GMAC/s that a machine reaches for prompts (default: measured here)",
       into::number(o.gmacs, 1e-3, 1e6),
       {.needs = "--read-rate"}},
  });
  command.add(only(engine_flags(o.session), "--threads,--batch,--kv-type"));
  command.add(report_flags(o.format));
  command.notes = kFooter;
  command.run = [options] { return run_plan(*options), 0; };
}

}  // namespace cria::tools
