#include "engine/distribute/report.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/distribute/file_parts.h"
#include "engine/execute/machine.h"
#include "engine/fingerprint.h"
#include "engine/graph/graph.h"
#include "engine/model.h"
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
std::vector<T> gather_all(Ranks& ranks, const T& own, Timeout patience) {
  std::vector<T> all(ranks.size());
  all[ranks.rank()] = own;
  std::vector<std::size_t> begin;
  for (std::size_t i = 0; i <= all.size(); ++i) begin.push_back(i * sizeof(T));
  ranks.gather(reinterpret_cast<std::byte*>(all.data()), begin, patience);
  return all;
}

// Of ranks in one place: who has the same limits. Containers of a machine may be told the same
// groups, of other namespaces. Where a launcher gives each rank a group of its own, each is a
// place.
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

// Of all ranks in the place of this one.
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

}  // namespace

std::vector<RankVersion> exchange_versions(Ranks& ranks, std::string_view version) {
  RankVersion own;
  set_text(own.host, ranks.host());
  set_text(own.version, version);
  return gather_all(ranks, own, Timeout::Loading);
}

const RankVersion* first_version_mismatch(const std::vector<RankVersion>& greetings) {
  for (const RankVersion& greeting : greetings)
    if (std::strcmp(greeting.version, greetings[0].version) != 0) return &greeting;
  return nullptr;
}

void expect_one_version(const std::vector<RankVersion>& greetings) {
  const RankVersion* const other = first_version_mismatch(greetings);
  if (other == nullptr) return;
  fail(static_cast<std::size_t>(other - greetings.data()), other->host,
       std::string("another version of the program: expected ") + greetings[0].version + ", got " +
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
  read_nothing_ahead(model);
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

void expect_room(const std::vector<RankReport>& reports) {
  for (const RankReport& report : reports) {
    const auto [needed, available] = place_memory(reports, report);
    if (needed > available)
      throw Error(std::string("ranks on ") + report.host +
                  ": not enough memory for all together: expected " +
                  std::to_string((needed + (1 << 20) - 1) >> 20) + " MiB available, got " +
                  std::to_string(available >> 20) + " MiB");
  }
}

std::vector<RankReport> exchange(Ranks& ranks, const RankReport& own, Timeout patience) {
  return gather_all(ranks, own, patience);
}

void expect_agreement(const std::vector<RankReport>& reports) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const RankReport& report = reports[i];
    const std::string wrong = report.failed() ? report.error : difference(reports[0], report);
    if (!wrong.empty()) fail(i, report.host, wrong);
  }
}

}  // namespace cria
