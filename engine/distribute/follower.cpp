#include <algorithm>
#include <map>
#include <optional>

#include "engine/architectures/architecture.h"
#include "engine/distribute/leader.h"
#include "engine/execute/machine.h"
#include "engine/model_parts.h"

namespace cria {
namespace {

LoadOptions get_options(PacketReader& packet) {
  LoadOptions options;
  options.mmap = packet.get<bool>();
  options.mlock = packet.get<bool>();
  options.pre_tokenizer = packet.get_text();
  options.overrides.resize(packet.get<std::uint64_t>());
  for (MetadataOverride& override : options.overrides) {
    override.key = packet.get_text();
    switch (packet.get<std::uint64_t>()) {
      case 0:
        override.value = packet.get<bool>();
        break;
      case 1:
        override.value = packet.get<std::int64_t>();
        break;
      case 2:
        override.value = packet.get<double>();
        break;
      default:
        override.value = packet.get_text();
    }
  }
  options.loras.resize(packet.get<std::uint64_t>());
  for (LoraFile& lora : options.loras) {
    lora.path = packet.get_text();
    lora.scale = packet.get<float>();
  }
  return options;
}

const KernelSet& kernels_named(const std::string& isa) {
  if (isa.empty()) return kernels_in_use();
  for (const KernelSet* const kernels : available_kernels())
    if (kernels->isa == isa) return *kernels;
  throw Error("cannot run the instruction set " + isa);
}

/// The engine that rank 0 requests.
struct WantedEngine {
  std::shared_ptr<const Model> model;
  KvShape kv;
  WorkShape work;
  Threads threads;
  std::uint32_t rope_ctx = 0;
  std::string isa;
  Shares shares;
};

/// The part of an engine on this rank.
class FollowerEngine {
 public:
  FollowerEngine(const WantedEngine& wanted, Ranks& ranks)
      : model_(wanted.model),
        kernels_(kernels_named(wanted.isa)),
        graph_(&kernels_ == active_kernels() ? model_->graph() : build_graph(*model_, kernels_)),
        parts_(GraphParts::of(graph_, wanted.shares, ranks.rank())),
        kv_(own_part(wanted.kv, parts_)),
        pool_(graph_, checked(wanted, kv_)),
        executor_(graph_, kernels_, pool_, wanted.work, wanted.threads, wanted.rope_ctx, parts_,
                  &ranks),
        plan_(wanted.work.n_batch),
        tables_(wanted.work.n_batch) {
    read_own_rows(*model_, graph_, parts_);
  }

  [[nodiscard]] RankMemory memory() const {
    return {parts_.weight_bytes(graph_), KvPool::bytes(graph_, kv_),
            WorkMemory::bytes(graph_, executor_.shape())};
  }
  [[nodiscard]] bool pinned() const { return model_->pinned(); }
  void forward(PacketReader& packet) {
    executor_.gather_all(packet.get<bool>());
    plan_.clear();
    const auto slices = packet.get<std::uint64_t>();
    for (std::size_t i = 0; i < slices; ++i) {
      const auto first_pos = packet.get<std::uint64_t>(),
                 first_wanted = packet.get<std::uint64_t>();
      packet.get_all(tokens_);
      tables_[i].resize(packet.get<std::uint64_t>());
      for (std::vector<PageId>& pages : tables_[i]) packet.get_all(pages);
      std::vector<float> scales;
      packet.get_all(scales);
      plan_.add(tokens_, first_pos, first_wanted, tables_[i], adapter_scales(std::move(scales)));
    }
    plan_.finish();
    executor_.forward(plan_);
  }
  void logits(PacketReader& packet) {
    const auto begin = packet.get<std::uint64_t>(), end = packet.get<std::uint64_t>();
    (void)executor_.logits(plan_, begin, end);
  }
  void copy_page(PacketReader& packet) {
    const auto group = packet.get<std::uint64_t>();
    const auto from = packet.get<PageId>(), to = packet.get<PageId>();
    pool_.copy(group, from, to);
  }

 private:
  static Graph build_graph(const Model& model, const KernelSet& kernels) {
    return cria::build_graph(model.file(), model.config(), kernels, &model.adapters()).graph;
  }
  static KvShape own_part(KvShape shape, const GraphParts& parts) {
    shape.held = parts.held;
    return shape;
  }
  const KvShape& checked(const WantedEngine& wanted, const KvShape& kv) const {
    const std::size_t needed = (model_->pinned() ? 0 : parts_.weight_bytes(graph_)) +
                               KvPool::bytes(graph_, kv) + WorkMemory::bytes(graph_, wanted.work);
    const std::size_t available = available_memory();
    if (needed > available)
      throw Error("not enough memory: expected " + std::to_string(needed >> 20) +
                  " MiB available, got " + std::to_string(available >> 20) + " MiB");
    return kv;
  }

  const std::shared_ptr<const Model> model_;
  const KernelSet& kernels_;
  const Graph graph_;
  const GraphParts parts_;
  const KvShape kv_;
  KvPool pool_;
  Executor executor_;
  BatchPlan plan_;
  std::vector<PageTables> tables_;  // page tables of the plan's slices
  std::vector<TokenId> tokens_;
};

class Follower {
 public:
  explicit Follower(Ranks& ranks) : ranks_(ranks) {}

  void run() {
    for (;;) {
      const RankTask task = packet_.receive(ranks_);
      if (task == RankTask::End) return;
      if (task == RankTask::SetTimeout) ranks_.set_timeout(packet_.get<double>());
      if (task == RankTask::MeasureRates)
        (void)exchange_read_rates(ranks_, packet_.get<std::uint32_t>());
      if (task == RankTask::TellMemory) (void)exchange(ranks_, report_of(ranks_), Timeout::Usual);
      if (task == RankTask::LoadModel) load_model();
      if (task == RankTask::OpenEngine) open_engine();
      if (task == RankTask::DropModel) models_.erase(packet_.get<std::uint64_t>());
      if (task == RankTask::CloseEngine) engines_.erase(packet_.get<std::uint64_t>());
      if (task == RankTask::Forward) engine().forward(packet_);
      if (task == RankTask::Logits) engine().logits(packet_);
      if (task == RankTask::CopyPage) engine().copy_page(packet_);
    }
  }

 private:
  FollowerEngine& engine() { return engines_.at(packet_.get<std::uint64_t>()); }

  template <class F>
  void report(F&& f) {
    RankReport own = report_of(ranks_);
    try {
      f(own);
    } catch (const std::exception& error) {
      set_error(own, error.what());
    }
    (void)exchange(ranks_, own,
                   Timeout::Loading);  // rank 0 reports errors and drops the object
  }

  void load_model() {
    report([this](RankReport& own) {
      const auto id = packet_.get<std::uint64_t>();
      const std::string path = packet_.get_text();
      const auto model = Model::load(path, get_options(packet_));
      models_[id] = model;
      describe(own, *model);
    });
  }

  void open_engine() {
    report([this](RankReport& own) {
      const auto id = packet_.get<std::uint64_t>();
      const FollowerEngine& engine = engines_.try_emplace(id, wanted(), ranks_).first->second;
      describe_engine(own, engine.memory(), engine.pinned());
    });
  }

  WantedEngine wanted() {
    WantedEngine wanted;
    wanted.model = models_.at(packet_.get<std::uint64_t>());
    wanted.kv.type = packet_.get<KvType>();
    for (std::size_t* const n : {&wanted.kv.n_ctx, &wanted.kv.n_batch, &wanted.kv.sequences,
                                 &wanted.kv.positions, &wanted.kv.kept})
      *n = packet_.get<std::size_t>();
    wanted.kv.has_prefix_cache = packet_.get<bool>();
    wanted.work.n_batch = wanted.kv.n_batch;
    wanted.work.n_ctx = wanted.kv.n_ctx;
    wanted.work.logit_rows = packet_.get<std::size_t>();
    const auto decode = packet_.get<std::uint32_t>(), prefill = packet_.get<std::uint32_t>();
    wanted.threads.decode = decode != 0 ? decode : default_threads(&ranks_);
    wanted.threads.prefill = prefill != 0 ? prefill : wanted.threads.decode;
    wanted.work.threads = std::max(wanted.threads.decode, wanted.threads.prefill);
    wanted.rope_ctx = packet_.get<std::uint32_t>();
    wanted.isa = packet_.get_text();
    packet_.get_all(wanted.shares);
    return wanted;
  }

  Ranks& ranks_;
  PacketReader packet_;
  std::map<std::uint64_t, std::shared_ptr<const Model>> models_;
  std::map<std::uint64_t, FollowerEngine> engines_;
};

}  // namespace

void follow(Ranks& ranks, const std::string& version) {
  if (first_version_mismatch(exchange_versions(ranks, version)) != nullptr)
    return;  // rank 0 reports it
  Follower(ranks).run();
}

}  // namespace cria
