// What a model would need and reach on several machines, before there are any.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/execute/graph_parts.h"
#include "engine/execute/kv_pool.h"
#include "engine/execute/work_memory.h"

namespace cria {

/// The network, as a program sees it that sends from one machine to another.
struct Link {
  double latency = 0;  ///< seconds until a small message has arrived
  double rate = 0;     ///< bytes per second, of a machine in each direction
};
/// "1gbe", "10gbe", "25gbe", "100gbe-ib", or "LAT_US,GBPS": microseconds, and 10⁹ bits per second.
/// Throws Error.
Link parse_link(std::string_view text);

/// How one of the machines computes. What is divided among machines takes each its part of it,
/// other work takes each as long as it takes one alone.
struct MachineRates {
  double read = 0;  ///< decoding: bytes per second of weights that are multiplied with one token
  double products = 0;  ///< prompts: multiply-adds per second with weights
  /// Seconds of one token: for attention to one position; for everything that is not divided; for a
  /// byte that is gathered, to put it into its place.
  struct Other {
    double attention = 0, undivided = 0, gathered_byte = 0;
  };
  Other decode = {}, prompt = {};
};

/// What is to be run.
struct PlannedWork {
  KvType kv_type{};
  std::size_t n_ctx = 4096;   ///< positions that the cache holds
  std::size_t prompt = 512;   ///< tokens of a prompt
  std::size_t n_batch = 512;  ///< that are computed together
  unsigned threads = 1;       ///< of each machine
};

/// Positions that a token's attention to the cache looks at, in the mean: of the tokens of such a
/// prompt, or of one after it.
double positions_seen(const CacheSpec& cache, double prompt, bool decode);

/// Seconds of one token, and how many of these nothing is computed in.
struct PlannedSpeed {
  double seconds = 0, link = 0;
  [[nodiscard]] double tokens_per_second() const { return 1 / seconds; }
};
struct MachinesPlan {
  std::size_t weights = 0, kv = 0, work = 0;  ///< bytes, of the machine that has most of it
  PlannedSpeed prompt, decode;                ///< decode: after the prompt
};

/// Of machines that are alike.
MachinesPlan plan_machines(const Graph& graph, const PlannedWork& work, const MachineRates& rates,
                           const Link& link, std::size_t machines);

/// Batches of as many tokens as are computed together, and logits of one.
WorkShape work_shape(const Graph& graph, const PlannedWork& work);
/// With the heads that a rank has.
KvShape kv_shape(const GraphParts& parts, const PlannedWork& work, const WorkShape& shape);

}  // namespace cria
