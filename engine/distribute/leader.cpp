#include "engine/distribute/leader.h"

#include <cassert>
#include <utility>

#include "engine/model_parts.h"

namespace cria {
namespace {

void put_options(PacketWriter& packet, const LoadOptions& options) {
  packet.put(options.mmap);
  packet.put(options.mlock);
  packet.put_text(options.pre_tokenizer);
  packet.put(std::uint64_t{options.overrides.size()});
  for (const MetadataOverride& override : options.overrides) {
    packet.put_text(override.key);
    packet.put(std::uint64_t{override.value.index()});
    std::visit(
        [&packet](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
            packet.put_text(value);
          else
            packet.put(value);
        },
        override.value);
  }
  packet.put(std::uint64_t{options.loras.size()});
  for (const LoraFile& lora : options.loras) {
    packet.put_text(lora.path);
    packet.put(lora.scale);
  }
}

}  // namespace

Leader::Leader(Ranks& ranks, std::string_view version) : ranks_(ranks), shares_(ranks.size(), 1) {
  assert(ranks.rank() == 0);
  expect_one_version(exchange_versions(ranks_, version));
}

template <class... Values>
void Leader::send(RankTask task, const Values&... values) {
  packet_.begin(task);
  (packet_.put(values), ...);
  packet_.send(ranks_);
}

void Leader::end() noexcept {
  const Turn turn(mutex_);
  if (!std::exchange(ended_, true)) send(RankTask::End);
}

void Leader::set_timeout(double seconds) {
  const Turn turn(mutex_);
  send(RankTask::SetTimeout, seconds);
  ranks_.set_timeout(seconds);
}

std::vector<double> Leader::measure_rates(std::uint32_t threads) {
  const Turn turn(mutex_);
  send(RankTask::MeasureRates, threads);
  return exchange_read_rates(ranks_, threads);
}

double Leader::largest_need(const std::function<std::uint64_t(std::size_t)>& needed) {
  const Turn turn(mutex_);
  send(RankTask::TellMemory);
  std::vector<RankReport> reports = exchange(ranks_, report_of(ranks_), Timeout::Usual);
  for (std::size_t rank = 0; rank < reports.size(); ++rank) reports[rank].needed = needed(rank);
  return cria::largest_need(reports);
}

// Reports a failure here too, so that the others do not wait; the caller gets it first.
std::vector<RankReport> Leader::run_together(const std::function<void(RankReport&)>& here) {
  RankReport own = report_of(ranks_);
  std::exception_ptr failed;
  try {
    here(own);
  } catch (const std::exception& error) {
    failed = std::current_exception();
    set_error(own, error.what());
  }
  std::vector<RankReport> reports = exchange(ranks_, own, Timeout::Loading);
  if (failed) std::rethrow_exception(failed);
  expect_agreement(reports);
  return reports;
}

std::shared_ptr<const Model> Leader::load_model(
    const std::string& path, const LoadOptions& options,
    const std::function<std::shared_ptr<const Model>()>& load) {
  const Turn turn(mutex_);
  const std::uint64_t id = ++last_id_;
  packet_.begin(RankTask::LoadModel);
  packet_.put(id);
  packet_.put_text(path);
  put_options(packet_, options);
  packet_.send(ranks_);
  std::shared_ptr<const Model> model;
  try {
    run_together([&](RankReport& report) {
      model = load();
      describe(report, *model);
    });
  } catch (...) {
    send(RankTask::DropModel, id);
    throw;
  }
  models_[model.get()] = id;
  return model;
}

void Leader::drop_model(const Model& model) noexcept {
  const Turn turn(mutex_);
  const auto found = models_.find(&model);
  if (found == models_.end()) return;
  if (!ended_) send(RankTask::DropModel, found->second);
  models_.erase(found);
}

std::uint64_t Leader::open_engine(const ClusterEngine& engine,
                                  const std::function<RankMemory()>& open) {
  const Turn turn(mutex_);
  const std::uint64_t id = ++last_id_;
  packet_.begin(RankTask::OpenEngine);
  packet_.put(id);
  packet_.put(models_.at(engine.model));
  packet_.put(engine.kv.type);
  for (const std::size_t n : {engine.kv.n_ctx, engine.kv.n_batch, engine.kv.sequences,
                              engine.kv.positions, engine.kv.kept})
    packet_.put(n);
  packet_.put(engine.kv.has_prefix_cache);
  packet_.put(engine.work.logit_rows);
  for (const std::uint32_t n : {engine.threads, engine.threads_prefill, engine.rope_ctx})
    packet_.put(n);
  packet_.put_text(engine.kernels == active_kernels() ? "" : std::string(engine.kernels->isa));
  packet_.put_all(std::span<const unsigned>(shares_));
  packet_.send(ranks_);
  try {
    std::vector<RankReport> reports = run_together(
        [&](RankReport& own) { describe_engine(own, open(), engine.model->pinned()); });
    expect_memory(reports);
    for (std::size_t i = 0; i < opened_.size(); ++i) reports[i].memory.add(opened_[i].memory);
    opened_ = std::move(reports);
  } catch (...) {
    send(RankTask::CloseEngine, id);
    throw;
  }
  return id;
}

void Leader::read_rows(const Model& model, const Graph& graph, const GraphParts& parts) {
  read_own_rows(model, graph, parts);
}

void Leader::close_engine(std::uint64_t engine) noexcept {
  const Turn turn(mutex_);
  if (!ended_) send(RankTask::CloseEngine, engine);
}

Cluster::Turn Leader::forward(std::uint64_t engine, const BatchPlan& plan, bool observed) {
  Turn turn(mutex_);
  packet_.begin(RankTask::Forward);
  packet_.put(engine);
  packet_.put(observed);
  packet_.put(std::uint64_t{plan.all.slices.size()});
  for (std::size_t i = 0; i < plan.all.slices.size(); ++i) {
    const BatchSlice& slice = plan.all.slices[i];
    packet_.put(std::uint64_t{slice.first_pos});
    packet_.put(std::uint64_t{plan.first_wanted(i)});
    packet_.put_all(std::span(plan.all.tokens).subspan(slice.begin, slice.end - slice.begin));
    packet_.put(std::uint64_t{slice.pages->size()});
    for (const std::vector<PageId>& pages : *slice.pages)
      packet_.put_all(std::span<const PageId>(pages));
    packet_.put_all(slice.adapters ? std::span<const float>(*slice.adapters)
                                   : std::span<const float>());
  }
  packet_.send(ranks_);
  return turn;
}

Cluster::Turn Leader::logits(std::uint64_t engine, std::size_t begin, std::size_t end) {
  Turn turn(mutex_);
  send(RankTask::Logits, engine, std::uint64_t{begin}, std::uint64_t{end});
  return turn;
}

Cluster::Turn Leader::copy_page(std::uint64_t engine, std::size_t group, PageId from, PageId to) {
  Turn turn(mutex_);
  send(RankTask::CopyPage, engine, std::uint64_t{group}, from, to);
  return turn;
}

}  // namespace cria
