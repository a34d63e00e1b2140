// Reports that ranks exchange: version, model, memory and read rate of each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cluster.h"

namespace cria {

class Model;

/// First message between ranks. Its layout never changes: ranks of different versions must be able
/// to read it. Strings are truncated.
struct RankVersion {
  char host[64] = {}, version[128] = {};
};

/// Returns the versions of all ranks, on every rank.
std::vector<RankVersion> exchange_versions(Ranks& ranks, std::string_view version);
/// Returns the first that differs from rank 0's, or null.
const RankVersion* first_version_mismatch(const std::vector<RankVersion>& versions);
/// Throws Error that names that rank and its host.
void expect_one_version(const std::vector<RankVersion>& versions);

/// One rank's result of loading a model or opening an engine. Strings are truncated.
struct RankReport {
  char host[64] = {}, error[512] = {};  ///< error: "" if it succeeded
  std::uint64_t file = 0, graph = 0;    ///< fingerprints of the model's file and its computation
  RankMemory memory;                    ///< memory of the engine
  /// Bytes that it still needs; bytes available to all ranks of its place together; the place: a
  /// host, or a group of its processes.
  std::uint64_t needed = 0, available = 0, place = 0;

  [[nodiscard]] bool failed() const { return error[0] != '\0'; }
};

RankReport report_of(const Ranks& ranks);
void set_error(RankReport& report, std::string_view error);
/// Fills in the fingerprints of a model just loaded, and stops the system from reading ahead.
void describe(RankReport& report, const Model& model);

/// Returns the reports of all ranks, on every rank.
std::vector<RankReport> exchange(Ranks& ranks, const RankReport& own, Timeout timeout);

/// Fills in the memory of an engine just opened. pinned: the model's file is in memory already.
void describe_engine(RankReport& report, const RankMemory& memory, bool pinned);
/// Largest ratio of needed to available memory of a place.
double largest_need(const std::vector<RankReport>& reports);
/// Throws Error that names a host whose ranks need more memory than is available.
void expect_memory(const std::vector<RankReport>& reports);

/// Throws Error that names the first rank, and its host, that failed or differs from rank 0.
void expect_agreement(const std::vector<RankReport>& reports);

/// Measures how fast each rank reads memory, in GB/s by rank, which bounds decoding. Called by all
/// ranks together: ranks of one host share its memory. threads: 0: each rank's default. Takes a
/// third of a second and 256 MiB.
std::vector<double> exchange_read_rates(Ranks& ranks, std::uint32_t threads);
/// Returns shares in proportion to the rates, rounded so that equal machines get equal shares in
/// spite of noise.
Shares shares_of(const std::vector<double>& rates);

/// Asks the system to read the rows of the parts from the file, and no other pages. Returns before
/// they are read.
void read_own_rows(const Model& model, const Graph& graph, const GraphParts& parts);

}  // namespace cria
