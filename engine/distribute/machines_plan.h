// Predicts memory and speed of a model on several machines.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/execute/graph_parts.h"
#include "engine/execute/kv_pool.h"
#include "engine/execute/machine.h"
#include "engine/execute/work_memory.h"
#include "engine/model.h"

namespace cria {

/// Network between two machines.
struct Link {
  double latency = 0;  ///< latency of a small message, in seconds
  double rate = 0;     ///< bytes per second, in each direction
};
/// Parses "1gbe", "10gbe", "25gbe", "100gbe-ib", or "LAT_US,GBPS": microseconds, and 10⁹ bits per
/// second. Throws Error.
Link parse_link(std::string_view text);

/// Measured speed of one machine. Divided work takes each machine its share of the time, other work
/// all of it.
struct MachineRates {
  double read = 0;      ///< decode: bytes of weights per second
  double products = 0;  ///< prefill: multiply-adds with weights per second
  /// Seconds per token: of attention to one position, of nodes with a state, of work that is not
  /// divided, and of storing a gathered byte.
  struct Other {
    double attention = 0, recurrent = 0, undivided = 0, gathered_byte = 0;
  };
  Other decode = {}, prompt = {};
};

struct PlannedWork {
  KvType kv_type{};
  std::size_t n_ctx = 4096;   ///< positions of the KV cache
  std::size_t prompt = 512;   ///< tokens of a prompt
  std::size_t n_batch = 512;  ///< max tokens of a batch
  unsigned threads = 1;       ///< threads per machine
};

/// Mean number of positions that the attention of a token reads: of a prompt's tokens, or after the
/// prompt (decode).
double positions_seen(const CacheSpec& cache, double prompt, bool decode);

/// Seconds per token; `link` is the part spent waiting for the network.
struct PlannedSpeed {
  double seconds = 0, link = 0;
  [[nodiscard]] double tokens_per_second() const { return 1 / seconds; }
};
struct MachinesPlan {
  std::size_t weights = 0, kv = 0, work = 0;  ///< bytes, maximum over the machines
  PlannedSpeed prompt, decode;                ///< decode: after the prompt
};

/// Plans for equal machines.
MachinesPlan plan_machines(const Graph& graph, const PlannedWork& work, const MachineRates& rates,
                           const Link& link, std::size_t machines);

/// Work memory for batches of the plan.
WorkShape work_shape(const Graph& graph, const PlannedWork& work);
/// KV cache of a rank's heads.
KvShape kv_shape(const GraphParts& parts, const PlannedWork& work, const WorkShape& shape);

/// Measures this machine alone on one rank's part, of the fewest machines (a power of two) for
/// which it fits into `memory` and 4 GiB. The values that it computes are meaningless. Throws Error
/// if no part fits.
MachineRates measure_machine(const Model& model, const PlannedWork& work,
                             std::size_t memory = available_memory());

}  // namespace cria
