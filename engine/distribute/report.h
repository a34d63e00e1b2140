// What each rank tells all others: which program it is, and what it has loaded or opened.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ranks/ranks.h"

namespace cria {

class Model;

/// The first that ranks tell each other. No version of the program changes this layout: it is by
/// which they find out that they are of two. Texts are cut where they are too long.
struct RankVersion {
  char host[64] = {}, version[128] = {};
};

/// All ranks', by rank, on every rank.
std::vector<RankVersion> exchange_versions(Ranks& ranks, std::string_view version);
/// Null, or the first that has another version than rank 0.
const RankVersion* first_version_mismatch(const std::vector<RankVersion>& greetings);
/// Throws Error that names that rank, and its machine.
void expect_one_version(const std::vector<RankVersion>& greetings);

/// What a rank has for an engine, in bytes.
struct RankMemory {
  std::uint64_t weights = 0;  ///< of the file: the matrices' rows that it reads
  std::uint64_t kv = 0, work = 0;

  void add(const RankMemory& other) {
    weights += other.weights;
    kv += other.kv;
    work += other.work;
  }
};

/// One rank's; texts are cut where they are too long.
struct RankReport {
  char host[64] = {}, error[512] = {};  ///< error: "": it has succeeded
  std::uint64_t file = 0, graph = 0;    ///< fingerprints of a model's file, and of what is computed
  RankMemory memory;                    ///< of the engine that is opened
  /// Bytes that it needs beyond what is taken, and those that were there for it and for all ranks
  /// of this place: a machine, or a group of its processes.
  std::uint64_t needed = 0, available = 0, place = 0;

  [[nodiscard]] bool failed() const { return error[0] != '\0'; }
};

RankReport report_of(const Ranks& ranks);
void set_error(RankReport& report, std::string_view error);
/// Of a model that was just loaded: of its file little is read before its parts are known.
void describe(RankReport& report, const Model& model);

/// All ranks' reports, by rank, on every rank.
std::vector<RankReport> exchange(Ranks& ranks, const RankReport& own, Timeout patience);

/// Of an engine that was just opened. pinned: the model's file lies in memory already.
void describe_engine(RankReport& report, const RankMemory& memory, bool pinned);
/// Of all places the largest part of the available memory that ranks need together there.
double largest_need(const std::vector<RankReport>& reports);
/// Throws Error that names the machine where ranks need more together than there was.
void expect_room(const std::vector<RankReport>& reports);

/// Throws Error that names the first rank that has failed or differs from rank 0, and its machine.
void expect_agreement(const std::vector<RankReport>& reports);

}  // namespace cria
