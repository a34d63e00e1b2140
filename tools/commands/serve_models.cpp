#include "tools/commands/serve_models.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "engine/execute/machine.h"
#include "tools/cli/command_line.h"
#include "tools/model_store.h"
#include "tools/options/values.h"
#include "tools/ranks/process_ranks.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

using serve::ModelSource;
using serve::ServedModel;

constexpr const char* kPlaces = "--models";

serve::ServiceOptions service_options(const ServeModels& all, const Model& model) {
  serve::ServiceOptions service;
  EngineOptions& engine = service.engine;
  engine = engine_options(all.model);
  engine.rope_ctx = engine.n_ctx == 0 ? model.context_length() : engine.n_ctx;
  engine.sequences = static_cast<std::uint32_t>(all.slots);
  // A step has a token of every answer that is being written, and some of a prompt.
  engine.n_batch = std::max(engine.n_batch, engine.sequences + 1);
  engine.prefix_cache_bytes = std::uint64_t{all.cache_mib} << 20;
  service.scheduler.prompt_tokens = all.prefill_chunk;
  service.queue = all.queue;
  service.request_timeout = milliseconds(all.request_timeout);
  return service;
}

/// Defaults of fields that requests leave out. Without --seed each request gets its own seed.
GenerateOptions default_answer(const SamplingOptions& sampling, const Model& model) {
  GenerateOptions defaults = sampling.resolve();
  sampling.follow(model.file(), defaults.sampler);
  defaults.sampler.seed = sampling.generate.sampler.seed;
  return defaults;
}

std::unique_ptr<ServedModel> described(const ServeModels& all, const std::string& id,
                                       std::shared_ptr<const Model> model, std::string* note) {
  auto chat_template =
      std::make_shared<const ChatTemplate>(choose_template(all.chat_template, model->vocabulary()));
  if (note != nullptr) *note = chat_template->note();
  auto served = std::make_unique<ServedModel>(
      ServedModel::of(model, std::move(chat_template), call_form_named(all.tool_format), id));
  EngineOptions engine = service_options(all, *model).engine;
  engine.prefix_cache_bytes = 0;
  served->card.n_ctx =
      engine.n_ctx != 0 ? engine.n_ctx : std::min(model->context_length(), kDefaultContext);
  served->card.slots = engine.sequences;
  served->card.memory = engine_memory(*model, engine).total();
  served->defaults = default_answer(all.sampling, *model);
  served->pooling = all.pooling.empty() ? default_pooling(*model) : parse_pooling(all.pooling);
  return served;
}

std::unique_ptr<ServedModel> load_served(const ServeModels& all, const std::string& id,
                                         const std::string& path, serve::Metrics& metrics) {
  ModelOptions options = all.model;
  options.model = path;
  const auto model = load_model(options);
  warn_of_long_context(*model, options);
  std::string note;
  auto served = described(all, id, model, &note);
  print_and_clear(note);
  if (served->pooling != Pooling::None) check_output(*model, served->pooling);
  served->service = std::make_unique<serve::Service>(*model, service_options(all, *model), metrics);
  return served;
}

ModelSource source_of(const std::shared_ptr<const ServeModels>& all, const std::string& id,
                      const std::string& path, serve::Metrics& metrics) {
  return {id, path,
          [all, id, path] {
            ModelOptions options = all->model;
            options.mlock = options.no_mmap = false;
            return described(*all, id, Model::load(path, load_options(options)), nullptr);
          },
          [all, id, path, &metrics] { return load_served(*all, id, path, metrics); }};
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

/// Adds a model unless its file is there; throws UsageError if another one has its name.
void add_source(std::vector<KnownModel>& models, KnownModel model) {
  for (const KnownModel& other : models) {
    if (same_file(other.path, model.path)) return;
    if (other.name == model.name)
      throw UsageError(kPlaces, "two models are named " + without_controls(model.name) + ": " +
                                    without_controls(other.path) + " and " +
                                    without_controls(model.path));
  }
  models.push_back(std::move(model));
}

std::vector<KnownModel> named_models(const std::string& place) {
  std::vector<KnownModel> models;
  try {
    models = models_at(place);
  } catch (const Error& error) {
    throw UsageError(kPlaces, error.what());
  }
  if (models.empty()) throw UsageError(kPlaces, "no GGUF file in " + without_controls(place));
  return models;
}

/// Memory of the machine, within the limits of the process, in bytes.
std::uint64_t machine_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::uint64_t all =
      pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                            : SIZE_MAX;
  return std::min<std::uint64_t>(all, cgroup_memory_limit());
}

serve::PoolOptions pool_options(const ServeModels& all) {
  serve::PoolOptions options;
  options.on_demand = !all.places.empty();
  options.strict = all.strict || options.on_demand;
  options.max_loaded = all.max_loaded;
  options.max_memory =
      all.memory_mib != 0 ? std::uint64_t{all.memory_mib} << 20U : machine_memory() / 4 * 3;
  options.idle = all.idle == 0 ? std::chrono::milliseconds(-1) : milliseconds(all.idle);
  options.queue = all.queue;
  options.request_timeout = milliseconds(all.request_timeout);
  return options;
}

}  // namespace

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

Flags ServeModels::flags() {
  return in_group(
      {{kPlaces, "PLACE",
        "serve several models, each loaded when it is asked for: a directory of GGUF files, a "
        "file, a name that cria list shows, or all that it shows (all); may be repeated; -m names "
        "the default one",
        into::each(places)},
       {"--models-max", "N", "models loaded at once (default: any number)",
        into::number(max_loaded, 0, 1 << 20)},
       {"--models-memory", "MIB",
        "memory of all loaded models, in MiB (default: three quarters of the machine's)",
        into::number(memory_mib, 1, 1 << 30)},
       {"--models-idle", "S", "seconds without requests after which a model is unloaded (0: never)",
        into::number(idle, 0, 1e6)}},
      "Several models");
}

std::unique_ptr<serve::ModelPool> ServeModels::pool(serve::Metrics& metrics) const {
  std::vector<KnownModel> models;
  std::string standard;
  if (!model.model.empty() || places.empty()) {
    const std::string path = find_model(model.model);
    standard = alias.empty() ? serve::file_name(path) : alias;
    models.push_back({standard, "", path, 0});
  } else if (!alias.empty()) {
    throw UsageError("--alias", "it names the default model: name that with -m FILE");
  }
  if (!places.empty() && rank_leader() != nullptr)
    throw UsageError(kPlaces, "several ranks serve one model (-m FILE)");
  for (const std::string& place : places) {
    for (const KnownModel& one : named_models(place)) add_source(models, one);
  }
  std::ranges::sort(models, {}, &KnownModel::name);
  const auto all = std::make_shared<const ServeModels>(*this);
  std::vector<ModelSource> sources;
  for (const KnownModel& one : models)
    sources.push_back(source_of(all, one.name, one.path, metrics));
  const auto found = std::ranges::find(models, standard, &KnownModel::name);
  const std::size_t index =
      found == models.end() ? 0 : static_cast<std::size_t>(found - models.begin());
  return std::make_unique<serve::ModelPool>(std::move(sources), index, pool_options(*this),
                                            metrics);
}

}  // namespace cria::tools
