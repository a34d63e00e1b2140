#include "engine/distribute/leader.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "engine/execute/graph_parts.h"
#include "engine/execute/machine.h"
#include "engine/model.h"
#include "engine/model_parts.h"
#include "kernels/kernels.h"
#include "model/error.h"

namespace cria {
namespace {

template <std::size_t N>
void set_text(char (&to)[N], std::string_view text) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

std::string difference(const RankReport& first, const RankReport& other) {
  if (first.file != other.file) return "another model: its file is not the same as rank 0's";
  if (first.graph != other.graph)
    return "computes the model in another way than rank 0: its processor, CRIA_ISA or its file's "
           "keys differ";
  return "";
}

template <class T>
std::vector<T> gather_all(Ranks& ranks, const T& own, Timeout timeout) {
  std::vector<T> all(ranks.size());
  all[ranks.rank()] = own;
  std::vector<std::size_t> begin;
  for (std::size_t i = 0; i <= all.size(); ++i) begin.push_back(i * sizeof(T));
  ranks.gather(reinterpret_cast<std::byte*>(all.data()), begin, timeout);
  return all;
}

// Identifies ranks with the same memory limits: host, boot, cgroup and its namespace (containers of
// a host may see equal cgroup names).
std::uint64_t place_of(const std::string& host) {
  Hash hash;
  hash.add(host.data(), host.size());
  for (const char* const path : {"/proc/sys/kernel/random/boot_id", "/proc/self/cgroup"}) {
    std::ifstream in(path);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    hash.add(text.data(), text.size());
  }
  std::error_code error;
  const std::string names = std::filesystem::read_symlink("/proc/self/ns/cgroup", error).string();
  hash.add(names.data(), names.size());
  return hash.value();
}

struct PlaceMemory {
  std::uint64_t needed = 0, available = 0;
};

// Sums over all ranks in the place of `one`.
PlaceMemory place_memory(const std::vector<RankReport>& reports, const RankReport& one) {
  PlaceMemory memory;
  for (const RankReport& other : reports) {
    if (other.place != one.place) continue;
    memory.needed += other.needed;
    memory.available = std::max(memory.available, other.available);
  }
  return memory;
}

[[noreturn]] void fail(std::size_t rank, const char* host, const std::string& wrong) {
  throw Error("rank " + std::to_string(rank) + " on " + host + ": " + wrong);
}

// Bytes of one request: Linux truncates longer ones to its read-ahead limit, 128 KiB by default.
constexpr std::uintptr_t kReadPiece = std::uintptr_t{128} << 10;

struct AddressRange {
  std::uintptr_t begin, end;
};

void advise_range(AddressRange range, int advice) {
  ::madvise(reinterpret_cast<void*>(range.begin), range.end - range.begin, advice);
}

// Pages of the tensor.
AddressRange pages_of(const TensorView& tensor) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  return {address / page * page, address + tensor.bytes};
}

using RateClock = std::chrono::steady_clock;

constexpr std::size_t kRateBytes = std::size_t{256} << 20;  // larger than the caches
constexpr std::size_t kRatePiece = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kRateTime(150);

/// Memory that is backed by pages.
class Touched {
 public:
  Touched()
      : data_(
            mmap(nullptr, kRateBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) return;
    madvise(data_, kRateBytes, MADV_HUGEPAGE);
    std::fill_n(data(), kRateBytes, std::byte{1});
  }
  ~Touched() {
    if (data_ != MAP_FAILED) munmap(data_, kRateBytes);
  }
  Touched(const Touched&) = delete;
  Touched& operator=(const Touched&) = delete;
  [[nodiscard]] bool there() const { return data_ != MAP_FAILED; }
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
};

// Without kernels (CRIA_ISA cannot run here) loading a model fails later, with the reason.
double read_rate(const Touched& memory, unsigned threads) {
  const KernelSet* const kernels = active_kernels();
  if (!memory.there() || kernels == nullptr || kernels->read_peak == nullptr) return 1;
  std::atomic<std::size_t> pieces{0};
  const auto begin = RateClock::now();
  {
    const auto read = [&] {
      while (RateClock::now() - begin < kRateTime)
        kernels->read_peak(memory.data() + pieces++ * kRatePiece % kRateBytes, kRatePiece);
    };
    std::vector<std::jthread> team;
    try {
      for (unsigned i = 0; i < threads; ++i) team.emplace_back(read);
    } catch (const std::exception&) {  // measures with fewer
    }
  }
  const double seconds = std::chrono::duration<double>(RateClock::now() - begin).count();
  return 1e-9 * static_cast<double>(pieces * kRatePiece) / seconds;
}

}  // namespace

std::vector<RankVersion> exchange_versions(Ranks& ranks, std::string_view version) {
  RankVersion own;
  set_text(own.host, ranks.host());
  set_text(own.version, version);
  return gather_all(ranks, own, Timeout::Loading);
}

const RankVersion* first_version_mismatch(const std::vector<RankVersion>& versions) {
  for (const RankVersion& version : versions)
    if (std::strcmp(version.version, versions[0].version) != 0) return &version;
  return nullptr;
}

void expect_one_version(const std::vector<RankVersion>& versions) {
  const RankVersion* const other = first_version_mismatch(versions);
  if (other == nullptr) return;
  fail(static_cast<std::size_t>(other - versions.data()), other->host,
       std::string("another version of the program: expected ") + versions[0].version + ", got " +
           other->version);
}

RankReport report_of(const Ranks& ranks) {
  RankReport report;
  set_text(report.host, ranks.host());
  report.available = available_memory();
  report.place = place_of(ranks.host());
  return report;
}

void set_error(RankReport& report, std::string_view error) {
  set_text(report.error, error.empty() ? "failed" : error);
}

void describe(RankReport& report, const Model& model) {
  if (!model.pinned())
    for (const TensorView& tensor : model.file().tensors())
      advise_range(pages_of(tensor), MADV_RANDOM);
  report.file = file_fingerprint(model);
  Hash hash;
  hash.add_number(computation_fingerprint(model, model.graph(), 0));
  const std::string graph = model.graph().to_string();  // with the forms of values, which travel
  hash.add(graph.data(), graph.size());
  report.graph = hash.value();
}

void describe_engine(RankReport& report, const RankMemory& memory, bool pinned) {
  report.memory = memory;
  report.needed = (pinned ? 0 : memory.weights) + memory.kv + memory.work;
}

double largest_need(const std::vector<RankReport>& reports) {
  double most = 0;
  for (const RankReport& report : reports) {
    const auto [needed, available] = place_memory(reports, report);
    most = std::max(most, static_cast<double>(needed) /
                              static_cast<double>(std::max<std::uint64_t>(available, 1)));
  }
  return most;
}

void expect_memory(const std::vector<RankReport>& reports) {
  for (const RankReport& report : reports) {
    const auto [needed, available] = place_memory(reports, report);
    if (needed > available)
      throw Error(std::string("ranks on ") + report.host +
                  ": not enough memory for all together: expected " +
                  std::to_string((needed + (1 << 20) - 1) >> 20) + " MiB available, got " +
                  std::to_string(available >> 20) + " MiB");
  }
}

std::vector<RankReport> exchange(Ranks& ranks, const RankReport& own, Timeout timeout) {
  return gather_all(ranks, own, timeout);
}

void expect_agreement(const std::vector<RankReport>& reports) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const RankReport& report = reports[i];
    const std::string wrong = report.failed() ? report.error : difference(reports[0], report);
    if (!wrong.empty()) fail(i, report.host, wrong);
  }
}

std::vector<double> exchange_read_rates(Ranks& ranks, std::uint32_t threads) {
  const Touched memory;
  (void)gather_all(ranks, 0.0, Timeout::Loading);  // all begin together
  const double rate = read_rate(memory, threads != 0 ? threads : default_threads(&ranks));
  return gather_all(ranks, rate, Timeout::Loading);
}

Shares shares_of(const std::vector<double>& rates) {
  constexpr double kMost = 10;
  const double fastest = *std::ranges::max_element(rates);
  Shares shares;
  for (const double rate : rates)
    shares.push_back(static_cast<unsigned>(std::max(1.0, std::round(kMost * rate / fastest))));
  return shares;
}

void read_own_rows(const Model& model, const Graph& graph, const GraphParts& parts) {
  if (model.pinned()) return;
  parts.for_each_weight(graph, [](const TensorView& rows) {
    const AddressRange own = pages_of(rows);
    for (std::uintptr_t begin = own.begin; begin < own.end; begin += kReadPiece)
      advise_range({begin, std::min(begin + kReadPiece, own.end)}, MADV_WILLNEED);
  });
}

}  // namespace cria
